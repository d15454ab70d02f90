// Package envtest is a suite as projects have it: it starts the programs that it finds in
// KUBEBUILDER_ASSETS and knows nothing else about them.
package envtest

import (
	"io"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"optik.compat/backup/scenario"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, works func() error) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for err := works(); err != nil; err = works() {
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func start(t *testing.T, webhooks envtest.WebhookInstallOptions) (*envtest.Environment, *rest.Config) {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS names no directory of programs")
	}
	environment := &envtest.Environment{
		CRDDirectoryPaths:        []string{"../backup/crd"},
		ErrorIfCRDPathMissing:    true,
		AttachControlPlaneOutput: testing.Verbose(),
		WebhookInstallOptions:    webhooks,
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

// WIRE-91, WIRE-92: both programs start with envtest's own flags, and its administrator reads
// the default namespace.
func TestStart(t *testing.T) {
	environment, config := start(t, envtest.WebhookInstallOptions{})
	space := client.ObjectKey{Name: "default"}
	for _, accept := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		config := rest.CopyConfig(config)
		config.AcceptContentTypes = accept
		admin, err := client.New(config, client.Options{})
		must(t, err)
		must(t, admin.Get(t.Context(), space, &corev1.Namespace{}))
	}
	user, err := environment.AddUser(envtest.User{Name: "kim", Groups: []string{"system:masters"}}, nil)
	must(t, err)
	kubectl, err := user.Kubectl()
	must(t, err)
	said, complained, err := kubectl.Run("get", "namespace", "default", "-o", "name")
	if err != nil {
		t.Fatalf("kubectl: %v %v", err, complained)
	}
	text, err := io.ReadAll(said)
	if err != nil || string(text) != "namespace/default\n" {
		t.Errorf("kubectl says %q", text)
	}
}

// What a user may do follows the roles that are bound to it.
func TestRoles(t *testing.T) {
	environment, config := start(t, envtest.WebhookInstallOptions{})
	admin, err := client.New(config, client.Options{})
	must(t, err)
	user, err := environment.AddUser(envtest.User{Name: "kim", Groups: []string{"team"}}, nil)
	must(t, err)
	kim, err := client.New(user.Config(), client.Options{})
	must(t, err)
	mayList := func() error {
		return kim.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace("default"))
	}
	if err := mayList(); !apierrors.IsForbidden(err) {
		t.Fatalf("without a role: %v", err)
	}
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}},
	}
	must(t, admin.Create(t.Context(), role))
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "team"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "team"}},
	}
	must(t, admin.Create(t.Context(), binding))
	eventually(t, mayList)
	err = kim.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a reader writes: %v", err)
	}
}

func TestBackup(t *testing.T) {
	_, config := start(t, envtest.WebhookInstallOptions{})
	scenario.Run(t, config)
}
