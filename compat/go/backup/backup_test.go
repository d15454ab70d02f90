package backup_test

import (
	"os"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"optik.compat/backup/scenario"
)

// The operator on the server that KUBECONFIG names.
func TestBackup(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: []string{"crd"}})
	if err != nil {
		t.Fatal(err)
	}
	scenario.Run(t, config)
}
