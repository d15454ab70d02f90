package envtest

import (
	"context"
	"errors"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"optik.compat/backup"
	"optik.compat/backup/scenario"
)

type rules struct{}

func (rules) Default(_ context.Context, object *backup.Backup) error {
	if object.Labels == nil {
		object.Labels = map[string]string{"defaulted": "yes"}
	}
	return nil
}

func (rules) ValidateCreate(_ context.Context, object *backup.Backup) (admission.Warnings, error) {
	if object.Spec.Source == "floppy" {
		return nil, errors.New("nobody has a floppy drive")
	}
	return admission.Warnings{"backups are only as good as the last restore"}, nil
}

func (rules) ValidateUpdate(_ context.Context, old, object *backup.Backup) (admission.Warnings, error) {
	if old.Spec.Source != object.Spec.Source {
		return nil, errors.New("the source cannot change")
	}
	return nil, nil
}

func (rules) ValidateDelete(context.Context, *backup.Backup) (admission.Warnings, error) {
	return nil, nil
}

func webhooks() envtest.WebhookInstallOptions {
	none, fail := admissionv1.SideEffectClassNone, admissionv1.Fail
	path := func(verb string) admissionv1.WebhookClientConfig {
		path := "/" + verb + "-example-com-v1alpha1-backup"
		return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Name: "hooks", Namespace: "default", Path: &path}}
	}
	rule := []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
		Rule: admissionv1.Rule{
			APIGroups:   []string{backup.GroupVersion.Group},
			APIVersions: []string{backup.GroupVersion.Version},
			Resources:   []string{"backups"},
		},
	}}
	return envtest.WebhookInstallOptions{
		MutatingWebhooks: []*admissionv1.MutatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "compat"},
			Webhooks: []admissionv1.MutatingWebhook{{
				Name: "default.example.com", ClientConfig: path("mutate"), Rules: rule,
				SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
			}},
		}},
		ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "compat"},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "check.example.com", ClientConfig: path("validate"), Rules: rule,
				SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
			}},
		}},
	}
}

// Webhooks as controller-runtime serves them, installed as envtest installs them.
func TestWebhooks(t *testing.T) {
	environment, config := start(t, webhooks())
	scheme, installed := scenario.Scheme(t), environment.WebhookInstallOptions
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: installed.LocalServingHost, Port: installed.LocalServingPort, CertDir: installed.LocalServingCertDir,
		}),
	})
	must(t, err)
	must(t, ctrl.NewWebhookManagedBy(manager, &backup.Backup{}).WithDefaulter(rules{}).WithValidator(rules{}).Complete())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	defer func() {
		cancel()
		must(t, <-ended)
	}()
	eventually(t, func() error { return manager.GetWebhookServer().StartedChecker()(nil) })

	warnings := &heard{}
	config.WarningHandlerWithContext = warnings
	admin, err := client.New(config, client.Options{Scheme: scheme})
	must(t, err)
	made := &backup.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Spec: backup.Spec{Source: "disk", Image: "copy"}}
	must(t, admin.Create(t.Context(), made))
	if made.Labels["defaulted"] != "yes" {
		t.Errorf("not defaulted: %v", made.Labels)
	}
	if len(warnings.texts) != 1 || !strings.Contains(warnings.texts[0], "last restore") {
		t.Errorf("warnings: %v", warnings.texts)
	}
	made.Spec.Source = "tape"
	if err := admin.Update(t.Context(), made); err == nil || !strings.Contains(err.Error(), "the source cannot change") {
		t.Errorf("changed: %v", err)
	}
	floppy := &backup.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}, Spec: backup.Spec{Source: "floppy", Image: "copy"}}
	if err := admin.Create(t.Context(), floppy); err == nil || !strings.Contains(err.Error(), "floppy drive") {
		t.Errorf("created: %v", err)
	}
}

type heard struct{ texts []string }

func (h *heard) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	h.texts = append(h.texts, text)
}
