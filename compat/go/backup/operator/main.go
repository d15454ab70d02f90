// Program operator runs the Backup operator on the cluster of KUBECONFIG.
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/go-logr/logr/funcr"
	ctrl "sigs.k8s.io/controller-runtime"
	logs "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"optik.compat/backup"
)

func run() error {
	logs.SetLogger(funcr.New(func(_, text string) { fmt.Fprintln(os.Stderr, text) }, funcr.Options{}))
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	scheme, err := backup.Scheme()
	if err != nil {
		return err
	}
	// No limit of its own: the server has one.
	config.QPS = -1
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	reconciler := &backup.Reconciler{
		Client: manager.GetClient(), Events: manager.GetEventRecorder("backup"), Vault: os.Getenv("BACKUP_VAULT"),
	}
	if err := reconciler.SetupWithManager(manager); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
