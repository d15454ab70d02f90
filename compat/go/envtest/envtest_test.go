// Package envtest is a suite as projects have it: it starts the programs that it finds in
// KUBEBUILDER_ASSETS and knows nothing else about them.
package envtest

import (
	"io"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"optik.compat/backup/scenario"
)

func start(t *testing.T) (*envtest.Environment, *rest.Config) {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS names no directory of programs")
	}
	environment := &envtest.Environment{
		CRDDirectoryPaths:        []string{"../backup/crd"},
		ErrorIfCRDPathMissing:    true,
		AttachControlPlaneOutput: testing.Verbose(),
	}
	before := time.Now()
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %v", time.Since(before))
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	return environment, config
}

// Wire 91, 92: both programs start with envtest's own flags, and its administrator reads
// the default namespace.
func TestStart(t *testing.T) {
	environment, config := start(t)
	space := client.ObjectKey{Name: "default"}
	for _, accept := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		config := rest.CopyConfig(config)
		config.AcceptContentTypes = accept
		admin, err := client.New(config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := admin.Get(t.Context(), space, &corev1.Namespace{}); err != nil {
			t.Fatal(err)
		}
	}
	user, err := environment.AddUser(envtest.User{Name: "kim", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kubectl, err := user.Kubectl()
	if err != nil {
		t.Fatal(err)
	}
	said, complained, err := kubectl.Run("get", "namespace", "default", "-o", "name")
	if err != nil {
		t.Fatalf("kubectl: %v %v", err, complained)
	}
	text, err := io.ReadAll(said)
	if err != nil || string(text) != "namespace/default\n" {
		t.Errorf("kubectl says %q", text)
	}
}

func TestBackup(t *testing.T) {
	_, config := start(t)
	scenario.Run(t, config)
}
