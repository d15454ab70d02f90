// Package scenario is the life of a Backup, on whatever server it is given.
package scenario

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"optik.compat/backup"
)

const (
	patience = 30 * time.Second
	space    = "default"
)

type world struct {
	*testing.T
	client     client.Client
	reconciler *backup.Reconciler
}

func Scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme, err := backup.Scheme()
	must(t, err)
	return scheme
}

// Run starts the operator and lives through the life of a Backup. Its definition must be
// there.
func Run(t *testing.T, server *rest.Config) {
	w := start(t, server)
	first := w.created()
	w.running(first)
	w.predicatesHold(first)
	w.changed(first)
	w.conflicts(first)
	w.ownedAreKept()
	w.expired()
	w.refused()
	w.deleted(first)
}

func start(t *testing.T, config *rest.Config) *world {
	t.Helper()
	scheme := Scheme(t)
	manager, err := ctrl.NewManager(config, options(scheme))
	must(t, err)
	reconciler := &backup.Reconciler{
		Client: manager.GetClient(), Events: manager.GetEventRecorder("backup"), Vault: t.TempDir(),
	}
	must(t, reconciler.SetupWithManager(manager))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the operator ended: %v", err)
		}
	})
	direct, err := client.New(config, client.Options{Scheme: scheme})
	must(t, err)
	return &world{T: t, client: direct, reconciler: reconciler}
}

func options(scheme *runtime.Scheme) ctrl.Options {
	yes := true
	return ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       server.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "backup-operator",
		LeaderElectionNamespace:       space,
		LeaderElectionReleaseOnCancel: true,
		Controller:                    config.Controller{SkipNameValidation: &yes},
	}
}

func (w *world) create(name string) *backup.Backup {
	w.Helper()
	made := &backup.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name},
		Spec:       backup.Spec{Source: "disk", Image: "example.com/copy:1"},
	}
	must(w.T, w.client.Create(w.Context(), made))
	return made
}

// A Backup gets its defaults, a finalizer, a Job that belongs to it, and a status.
func (w *world) created() *backup.Backup {
	made := w.create("first")
	if made.Spec.RetentionDays != 7 {
		w.Fatalf("no default: %+v", made.Spec)
	}
	w.eventually("it is pending", func() bool { return w.phase(made) == "Pending" })
	if made.Finalizers[0] != backup.Finalizer || made.Generation != 1 || made.Status.ObservedGeneration != 1 {
		w.Fatalf("it is %+v", made)
	}
	if owner := metav1.GetControllerOf(w.job("first-1")); owner == nil || owner.UID != made.UID {
		w.Fatalf("the Job belongs to %+v", owner)
	}
	if _, err := os.Stat(w.place("first")); err != nil {
		w.Fatalf("no room was made: %v", err)
	}
	return made
}

// A change of what is owned is noticed.
func (w *world) running(first *backup.Backup) {
	job, begun, none := w.job("first-1"), metav1.Now(), int32(0)
	job.Status = batchv1.JobStatus{Active: 1, StartTime: &begun, Ready: &none, Terminating: &none}
	must(w.T, w.client.Status().Update(w.Context(), job))
	w.eventually("it is running", func() bool { return w.phase(first) == "Running" })
	if first.Generation != 1 {
		w.Fatalf("a status has made generation %d", first.Generation)
	}
}

// A write of the status alone is no reason to look: GenerationChangedPredicate.
func (w *world) predicatesHold(first *backup.Backup) {
	w.settled("marker-0")
	before := w.reconciler.Runs("first")
	must(w.T, w.client.Get(w.Context(), client.ObjectKeyFromObject(first), first))
	meta.SetStatusCondition(&first.Status.Conditions, metav1.Condition{
		Type: "Checked", Status: metav1.ConditionTrue, Reason: "ByHand", Message: "somebody had a look",
	})
	must(w.T, w.client.Status().Update(w.Context(), first))
	w.settled("marker-1")
	if after := w.reconciler.Runs("first"); after != before {
		w.Fatalf("looked at %d times more", after-before)
	}
}

// When the operator has seen to a later Backup, it has seen everything before it.
func (w *world) settled(name string) {
	marker := w.create(name)
	w.eventually(name+" is pending", func() bool { return w.phase(marker) == "Pending" })
}

func (w *world) changed(first *backup.Backup) {
	before := first.DeepCopy()
	first.Spec.RetentionDays = 14
	must(w.T, w.client.Patch(w.Context(), first, client.MergeFrom(before)))
	w.eventually("the change is carried out", func() bool {
		w.phase(first)
		return first.Status.ObservedGeneration == 2 && first.Status.Job == "first-2"
	})
	applied := client.ApplyConfigurationFromUnstructured(partOf(first.Name, map[string]any{"retentionDays": int64(21)}))
	owner := client.FieldOwner("somebody")
	if err := w.client.Apply(w.Context(), applied, owner); !apierrors.IsConflict(err) {
		w.Fatalf("applied over another manager: %v", err)
	}
	must(w.T, w.client.Apply(w.Context(), applied, owner, client.ForceOwnership))
	w.eventually("the apply is carried out", func() bool {
		w.phase(first)
		return first.Status.ObservedGeneration == 3 && first.Status.Job == "first-3"
	})
}

func (w *world) conflicts(first *backup.Backup) {
	key := client.ObjectKeyFromObject(first)
	must(w.T, w.client.Get(w.Context(), key, first))
	stale := first.DeepCopy()
	first.Labels = map[string]string{"by": "one"}
	must(w.T, w.client.Update(w.Context(), first))
	stale.Labels = map[string]string{"by": "two"}
	if err := w.client.Update(w.Context(), stale); !apierrors.IsConflict(err) {
		w.Fatalf("a stale write: %v", err)
	}
	var cached backup.BackupList
	w.eventually("the cache finds it by an index", func() bool {
		source := client.MatchingFields{backup.SourceField: "disk"}
		must(w.T, w.reconciler.List(w.Context(), &cached, source, client.MatchingLabels{"by": "one"}))
		return len(cached.Items) == 1
	})
}

func (w *world) ownedAreKept() {
	old := w.job("first-3")
	must(w.T, w.client.Delete(w.Context(), old, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	w.eventually("the Job is made again", func() bool {
		job := &batchv1.Job{}
		err := w.client.Get(w.Context(), client.ObjectKeyFromObject(old), job)
		must(w.T, client.IgnoreNotFound(err))
		return err == nil && job.UID != old.UID
	})
}

// Jobs of earlier generations go when they have been kept long enough.
func (w *world) expired() {
	job := w.job("first-1")
	begun, end, none := metav1.NewTime(time.Now().Add(-30*24*time.Hour)), metav1.NewTime(time.Now().Add(-29*24*time.Hour)), int32(0)
	done := func(kind batchv1.JobConditionType) batchv1.JobCondition {
		return batchv1.JobCondition{Type: kind, Status: "True", LastTransitionTime: end}
	}
	job.Status = batchv1.JobStatus{
		Succeeded: 1, StartTime: &begun, CompletionTime: &end, Ready: &none, Terminating: &none,
		Conditions: []batchv1.JobCondition{done(batchv1.JobSuccessCriteriaMet), done(batchv1.JobComplete)},
	}
	must(w.T, w.client.Status().Update(w.Context(), job))
	w.eventually("the old Job is removed", func() bool {
		err := w.client.Get(w.Context(), client.ObjectKeyFromObject(job), &batchv1.Job{})
		must(w.T, client.IgnoreNotFound(err))
		return err != nil
	})
}

func (w *world) refused() {
	wrong := &backup.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "wrong"}, Spec: backup.Spec{Source: "disk", Image: "copy", RetentionDays: -1}}
	if err := w.client.Create(w.Context(), wrong); !apierrors.IsInvalid(err) {
		w.Fatalf("a wrong Backup: %v", err)
	}
}

func (w *world) deleted(first *backup.Backup) {
	must(w.T, w.client.Delete(w.Context(), first))
	w.eventually("it is gone", func() bool {
		err := w.client.Get(w.Context(), client.ObjectKeyFromObject(first), first)
		must(w.T, client.IgnoreNotFound(err))
		return err != nil
	})
	if _, err := os.Stat(w.place("first")); !os.IsNotExist(err) {
		w.Fatalf("what was stored is still there: %v", err)
	}
}

func (w *world) place(name string) string {
	return filepath.Join(w.reconciler.Vault, space, name)
}

func (w *world) phase(of *backup.Backup) string {
	must(w.T, w.client.Get(w.Context(), client.ObjectKeyFromObject(of), of))
	return of.Status.Phase
}

func (w *world) job(name string) *batchv1.Job {
	job := &batchv1.Job{}
	must(w.T, w.client.Get(w.Context(), client.ObjectKey{Namespace: space, Name: name}, job))
	return job
}

func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			w.Fatalf("within %v it did not come true that %s", patience, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
