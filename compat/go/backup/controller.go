package backup

import (
	"context"
	"strconv"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const (
	Finalizer   = "compat.example.com/cleanup"
	SourceField = "spec.source"
)

type Reconciler struct {
	client.Client
	Events events.EventRecorder

	lock sync.Mutex
	runs map[string]int
}

// Runs is how often a Backup was looked at.
func (r *Reconciler) Runs(name string) int {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.runs[name]
}

func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	r.runs = map[string]int{}
	source := func(object client.Object) []string { return []string{object.(*Backup).Spec.Source} }
	err := manager.GetFieldIndexer().IndexField(context.Background(), &Backup{}, SourceField, source)
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(manager).
		Named("backup").
		For(&Backup{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&appsv1.Deployment{}).
		Complete(r)
}

func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	r.lock.Lock()
	r.runs[request.Name]++
	r.lock.Unlock()
	err := r.reconcile(ctx, request)
	if errors.IsConflict(err) {
		// Normal: the cache is behind; look again.
		return ctrl.Result{RequeueAfter: 1}, nil
	}
	return ctrl.Result{}, err
}

func (r *Reconciler) reconcile(ctx context.Context, request ctrl.Request) error {
	var cached Backup
	if err := r.Get(ctx, request.NamespacedName, &cached); err != nil {
		return client.IgnoreNotFound(err)
	}
	// What the cache gives belongs to the cache.
	backup := cached.DeepCopy()
	if !backup.DeletionTimestamp.IsZero() {
		return r.cleanUp(ctx, backup)
	}
	if controllerutil.AddFinalizer(backup, Finalizer) {
		if err := r.Update(ctx, backup); err != nil {
			return err
		}
	}
	deployment, err := r.keepDeployment(ctx, backup)
	if err != nil {
		return err
	}
	before := backup.DeepCopy()
	backup.Status.Phase = "Pending"
	if deployment.Status.AvailableReplicas > 0 {
		backup.Status.Phase = "Running"
	}
	backup.Status.ObservedGeneration = backup.Generation
	if backup.Status == before.Status {
		return nil
	}
	r.Events.Eventf(backup, deployment, corev1.EventTypeNormal, backup.Status.Phase, "Reconcile", "it is %s", backup.Status.Phase)
	return r.Status().Patch(ctx, backup, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func (r *Reconciler) keepDeployment(ctx context.Context, backup *Backup) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: backup.Namespace, Name: backup.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		labels := map[string]string{"backup": backup.Name}
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		deployment.Spec.Template.Labels = labels
		containers := &deployment.Spec.Template.Spec.Containers
		if len(*containers) == 0 {
			*containers = []corev1.Container{{Name: "keep", Image: "keep"}}
		}
		days := strconv.Itoa(int(backup.Spec.RetentionDays))
		(*containers)[0].Env = []corev1.EnvVar{{Name: "SOURCE", Value: backup.Spec.Source}, {Name: "DAYS", Value: days}}
		return controllerutil.SetControllerReference(backup, deployment, r.Scheme())
	})
	return deployment, err
}

func (r *Reconciler) cleanUp(ctx context.Context, backup *Backup) error {
	if !controllerutil.ContainsFinalizer(backup, Finalizer) {
		return nil
	}
	note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: backup.Namespace, Name: "gone-" + backup.Name}}
	if err := r.Create(ctx, note); err != nil && !errors.IsAlreadyExists(err) {
		return err
	}
	controllerutil.RemoveFinalizer(backup, Finalizer)
	return r.Update(ctx, backup)
}
