package clientgo

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
)

var everything = fields.Everything()

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
			},
		},
	}
}

// What is written as protobuf is read as JSON, and the other way round.
func TestProtobufAndJSONAgree(t *testing.T) {
	config, wire := connect(t)
	binary, space := namespace(t, protobuf(config))
	made, err := binary.AppsV1().Deployments(space).Create(t.Context(), deployment("web"), metav1.CreateOptions{})
	must(t, err)
	untyped, err := dynamic.NewForConfigOrDie(config).
		Resource(appsv1.SchemeGroupVersion.WithResource("deployments")).
		Namespace(space).Get(t.Context(), "web", metav1.GetOptions{})
	must(t, err)
	var read appsv1.Deployment
	must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(untyped.Object, &read))
	made.TypeMeta, read.TypeMeta = metav1.TypeMeta{}, metav1.TypeMeta{}
	if !equality.Semantic.DeepEqual(made, &read) {
		t.Errorf("written %+v\nread %+v", made, read)
	}
	made.Status.Replicas = 3
	_, err = binary.AppsV1().Deployments(space).UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	must(t, err)
	must(t, binary.AppsV1().Deployments(space).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	_, err = binary.AppsV1().Deployments(space).Get(t.Context(), "web", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("not gone: %v", err)
	}
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		spoken := func(asked request) bool {
			return asked.method == method && strings.Contains(asked.sent, "protobuf") &&
				strings.Contains(asked.got, "protobuf")
		}
		if wire.count(spoken) == 0 {
			t.Errorf("no %s in protobuf", method)
		}
	}
}

// However many try at once, no increment is lost.
func TestConflictsAreRetried(t *testing.T) {
	config, _ := connect(t)
	client, space := namespace(t, config)
	maps := client.CoreV1().ConfigMaps(space)
	_, err := maps.Create(t.Context(), configMap("counter"), metav1.CreateOptions{})
	must(t, err)
	const writers, each = 8, 10
	backoff := retry.DefaultBackoff
	backoff.Steps = 100
	var wait sync.WaitGroup
	for range writers {
		wait.Go(func() {
			for range each {
				err := retry.RetryOnConflict(backoff, func() error {
					counter, err := maps.Get(t.Context(), "counter", metav1.GetOptions{})
					if err != nil {
						return err
					}
					number, _ := strconv.Atoi(counter.Data["n"])
					counter.Data = map[string]string{"n": strconv.Itoa(number + 1)}
					_, err = maps.Update(t.Context(), counter, metav1.UpdateOptions{})
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	counter, err := maps.Get(t.Context(), "counter", metav1.GetOptions{})
	must(t, err)
	if counter.Data["n"] != strconv.Itoa(writers*each) {
		t.Errorf("%s of %d increments are left", counter.Data["n"], writers*each)
	}
}

func TestApplyConfigurations(t *testing.T) {
	config, _ := connect(t)
	client, space := namespace(t, config)
	labels := map[string]string{"app": "web"}
	wanted := func(image string) *appsapply.DeploymentApplyConfiguration {
		return appsapply.Deployment("web", space).WithSpec(appsapply.DeploymentSpec().
			WithSelector(metaapply.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(coreapply.PodTemplateSpec().WithLabels(labels).WithSpec(coreapply.PodSpec().
				WithContainers(coreapply.Container().WithName("c").WithImage(image)))))
	}
	deployments := client.AppsV1().Deployments(space)
	one := metav1.ApplyOptions{FieldManager: "one"}
	applied, err := deployments.Apply(t.Context(), wanted("nginx:1"), one)
	must(t, err)
	_, err = deployments.Apply(t.Context(), wanted("nginx:2"), metav1.ApplyOptions{FieldManager: "two"})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "one"`) {
		t.Errorf("no conflict: %v", err)
	}
	owned, err := appsapply.ExtractDeployment(applied, "one")
	must(t, err)
	if image := *owned.Spec.Template.Spec.Containers[0].Image; image != "nginx:1" {
		t.Errorf("one owns image %s", image)
	}
	again, err := deployments.Apply(t.Context(), owned, one)
	must(t, err)
	if again.ResourceVersion != applied.ResourceVersion {
		t.Error("an apply of what is owned already is a change")
	}
	scale, err := deployments.GetScale(t.Context(), "web", metav1.GetOptions{})
	must(t, err)
	scale.Spec.Replicas = 5
	_, err = deployments.UpdateScale(t.Context(), "web", scale, metav1.UpdateOptions{})
	must(t, err)
	patch := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"nginx:3"}]}}}}`)
	patched, err := deployments.Patch(t.Context(), "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
	if *patched.Spec.Replicas != 5 || patched.Spec.Template.Spec.Containers[0].Image != "nginx:3" {
		t.Errorf("patched to %+v", patched.Spec)
	}
}

func TestPages(t *testing.T) {
	config, _ := connect(t)
	client, space := namespace(t, protobuf(config))
	maps := client.CoreV1().ConfigMaps(space)
	var made []string
	for number := range 25 {
		name := fmt.Sprintf("map-%02d", number)
		_, err := maps.Create(t.Context(), configMap(name), metav1.CreateOptions{})
		must(t, err)
		made = append(made, name)
	}
	pages := 0
	lister := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		pages++
		return maps.List(ctx, options)
	})
	lister.PageSize = 10
	var read []string
	err := lister.EachListItem(t.Context(), metav1.ListOptions{}, func(object runtime.Object) error {
		read = append(read, object.(*corev1.ConfigMap).Name)
		return nil
	})
	must(t, err)
	if !slices.Equal(read, made) || pages != 3 {
		t.Errorf("%d pages of %v", pages, read)
	}
	must(t, maps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	list, err := maps.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(list.Items) != 0 {
		t.Errorf("%d are left", len(list.Items))
	}
}

// One leads; when it lets go, the other does.
func TestLeaderElection(t *testing.T) {
	config, _ := connect(t)
	client, space := namespace(t, config)
	leads := make(chan string, 2)
	campaign := func(name string) context.CancelFunc {
		ctx, cancel := context.WithCancel(t.Context())
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: "leader", Namespace: space},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		}
		go leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true,
			LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 100 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leads <- name },
				OnStoppedLeading: func() {},
			},
		})
		return cancel
	}
	resign := campaign("first")
	if leader := <-leads; leader != "first" {
		t.Fatalf("%s leads", leader)
	}
	defer campaign("second")()
	resign()
	select {
	case leader := <-leads:
		if leader != "second" {
			t.Fatalf("%s leads", leader)
		}
	case <-time.After(patience):
		t.Fatal("nobody leads")
	}
}

func TestEventsAreRecorded(t *testing.T) {
	config, _ := connect(t)
	client, space := namespace(t, config)
	made, err := client.CoreV1().ConfigMaps(space).Create(t.Context(), configMap("about"), metav1.CreateOptions{})
	must(t, err)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	defer broadcaster.Shutdown()
	must(t, broadcaster.StartRecordingToSinkWithContext(t.Context()))
	recorder := broadcaster.NewRecorder(scheme.Scheme, "compat")
	recorder.Eventf(made, nil, corev1.EventTypeNormal, "Tried", "Trying", "it works: %d", 42)
	eventually(t, "the event is there, in both groups", func() bool {
		newer, err := client.EventsV1().Events(space).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		older, err := client.CoreV1().Events(space).List(t.Context(), metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("involvedObject.name", "about").String(),
		})
		must(t, err)
		return len(newer.Items) == 1 && newer.Items[0].Note == "it works: 42" &&
			len(older.Items) == 1 && older.Items[0].Message == "it works: 42"
	})
}
