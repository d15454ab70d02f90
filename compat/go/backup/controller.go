package backup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const (
	Finalizer   = "example.com/backup-operator"
	SourceField = "spec.source"
	ownerField  = "metadata.controller"
)

type Reconciler struct {
	client.Client
	Events events.EventRecorder
	// Vault has a directory for each Backup, which no owner reference removes.
	Vault string

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
	indexer := manager.GetFieldIndexer()
	source := func(object client.Object) []string { return []string{object.(*Backup).Spec.Source} }
	if err := indexer.IndexField(context.Background(), &Backup{}, SourceField, source); err != nil {
		return err
	}
	owner := func(object client.Object) []string {
		owner := metav1.GetControllerOf(object)
		if owner == nil || owner.Kind != "Backup" || owner.APIVersion != GroupVersion.String() {
			return nil
		}
		return []string{string(owner.UID)}
	}
	if err := indexer.IndexField(context.Background(), &batchv1.Job{}, ownerField, owner); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(manager).
		Named("backup").
		For(&Backup{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&batchv1.Job{}).
		Complete(r)
}

func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	r.lock.Lock()
	r.runs[request.Name]++
	r.lock.Unlock()
	again, err := r.reconcile(ctx, request)
	if errors.IsConflict(err) || errors.IsAlreadyExists(err) {
		// Normal: the cache is behind; look again.
		return ctrl.Result{RequeueAfter: 1}, nil
	}
	return ctrl.Result{RequeueAfter: again}, err
}

func (r *Reconciler) reconcile(ctx context.Context, request ctrl.Request) (time.Duration, error) {
	var cached Backup
	if err := r.Get(ctx, request.NamespacedName, &cached); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	// What the cache gives belongs to the cache.
	backup := cached.DeepCopy()
	if !backup.DeletionTimestamp.IsZero() {
		return 0, r.cleanUp(ctx, backup)
	}
	if controllerutil.AddFinalizer(backup, Finalizer) {
		if err := r.Update(ctx, backup); err != nil {
			return 0, err
		}
	}
	if err := os.MkdirAll(r.place(backup), 0o755); err != nil {
		return 0, err
	}
	job, err := r.keepJob(ctx, backup)
	if err != nil {
		return 0, err
	}
	if err := r.report(ctx, backup, job); err != nil {
		return 0, err
	}
	return r.removeExpired(ctx, backup, job)
}

// report says in the status how the job goes, if it does not say so already.
func (r *Reconciler) report(ctx context.Context, backup *Backup, job *batchv1.Job) error {
	before := backup.DeepCopy()
	status := &backup.Status
	status.Phase, status.Job, status.ObservedGeneration = phase(job), job.Name, backup.Generation
	complete := metav1.ConditionFalse
	if status.Phase == Succeeded {
		complete = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: "Complete", Status: complete, ObservedGeneration: backup.Generation,
		Reason: "Job" + status.Phase, Message: fmt.Sprintf("job %s is %s", job.Name, status.Phase),
	})
	if equality.Semantic.DeepEqual(backup.Status, before.Status) {
		return nil
	}
	if status.Phase == Failed {
		r.Events.Eventf(backup, job, corev1.EventTypeWarning, "JobFailed", "Backup", "job %s failed", job.Name)
	}
	return r.Status().Patch(ctx, backup, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func (r *Reconciler) keepJob(ctx context.Context, backup *Backup) (*batchv1.Job, error) {
	desired := jobOf(backup)
	if err := controllerutil.SetControllerReference(backup, desired, r.Scheme()); err != nil {
		return nil, err
	}
	var job batchv1.Job
	if err := r.Get(ctx, client.ObjectKeyFromObject(desired), &job); !errors.IsNotFound(err) {
		return &job, err
	}
	return desired, r.Create(ctx, desired)
}

// removeExpired deletes jobs of earlier generations that ended long ago, and says how
// long it is until the next one can be.
func (r *Reconciler) removeExpired(ctx context.Context, backup *Backup, newest *batchv1.Job) (time.Duration, error) {
	var jobs batchv1.JobList
	owned := client.MatchingFields{ownerField: string(backup.UID)}
	if err := r.List(ctx, &jobs, client.InNamespace(backup.Namespace), owned); err != nil {
		return 0, err
	}
	var next time.Duration
	for at := range jobs.Items {
		job := &jobs.Items[at]
		end := ended(job)
		if end == nil || job.Name == newest.Name || !job.DeletionTimestamp.IsZero() {
			continue
		}
		left := time.Until(end.Add(time.Duration(backup.Spec.RetentionDays) * 24 * time.Hour))
		if left <= 0 {
			only := client.Preconditions{UID: &job.UID}
			err := r.Delete(ctx, job, only, client.PropagationPolicy(metav1.DeletePropagationBackground))
			if client.IgnoreNotFound(err) != nil {
				return 0, err
			}
		} else if next == 0 || left < next {
			next = left
		}
	}
	return next, nil
}

func (r *Reconciler) cleanUp(ctx context.Context, backup *Backup) error {
	if !controllerutil.ContainsFinalizer(backup, Finalizer) {
		return nil
	}
	if err := os.RemoveAll(r.place(backup)); err != nil {
		return err
	}
	controllerutil.RemoveFinalizer(backup, Finalizer)
	return client.IgnoreNotFound(r.Update(ctx, backup))
}

func (r *Reconciler) place(backup *Backup) string {
	return filepath.Join(r.Vault, backup.Namespace, backup.Name)
}
