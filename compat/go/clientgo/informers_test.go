package clientgo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// What can be listed and watched.
func watchable(t *testing.T, client discovery.DiscoveryInterface) []schema.GroupVersionResource {
	t.Helper()
	lists, err := client.ServerPreferredResources()
	must(t, err)
	verbs := discovery.SupportsAllVerbs{Verbs: []string{"list", "watch"}}
	kinds, err := discovery.GroupVersionResources(discovery.FilteredBy(verbs, lists))
	must(t, err)
	if len(kinds) < 40 {
		t.Fatalf("only %d kinds can be watched", len(kinds))
	}
	all := make([]schema.GroupVersionResource, 0, len(kinds))
	for kind := range kinds {
		all = append(all, kind)
	}
	return all
}

func isStreamingList(asked request) bool {
	return strings.Contains(asked.query, "sendInitialEvents=true")
}

func isPlainList(asked request) bool {
	return asked.method == "GET" && strings.Contains(asked.query, "limit=") &&
		!strings.Contains(asked.query, "watch=")
}

// WIRE-73: informers of every kind sync, by the stream that replaces a list.
func TestTypedInformersSync(t *testing.T) {
	for _, form := range []string{"json", "protobuf"} {
		t.Run(form, func(t *testing.T) {
			config, wire := connect(t)
			if form == "protobuf" {
				config = protobuf(config)
			}
			client := kubernetes.NewForConfigOrDie(config)
			factory := informers.NewSharedInformerFactory(client, 0)
			started := 0
			for _, kind := range watchable(t, client) {
				if _, err := factory.ForResource(kind); err == nil {
					started++
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			factory.Start(ctx.Done())
			for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
				if !synced {
					t.Errorf("%v did not sync", kind)
				}
			}
			if streams := wire.count(isStreamingList); streams < started {
				t.Errorf("%d kinds, but only %d streaming lists", started, streams)
			}
			if lists := wire.count(isPlainList); lists > 0 {
				t.Errorf("%d informers fell back to plain lists", lists)
			}
			if form == "protobuf" {
				others := func(asked request) bool {
					return isStreamingList(asked) && !strings.Contains(asked.got, "protobuf")
				}
				if n := wire.count(others); n > 0 {
					t.Errorf("%d streams are not protobuf", n)
				}
			}
		})
	}
}

func TestDynamicAndMetadataInformersSync(t *testing.T) {
	config, _ := connect(t)
	client, space := namespace(t, config)
	_, err := client.CoreV1().ConfigMaps(space).Create(t.Context(), configMap("seen"), metav1.CreateOptions{})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	whole := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(config), 0)
	slim := metadatainformer.NewSharedInformerFactory(metadata.NewForConfigOrDie(config), 0)
	maps := corev1.SchemeGroupVersion.WithResource("configmaps")
	for _, kind := range watchable(t, client) {
		whole.ForResource(kind)
		slim.ForResource(kind)
	}
	whole.Start(ctx.Done())
	slim.Start(ctx.Done())
	for kind, synced := range whole.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Errorf("%v did not sync", kind)
		}
	}
	for kind, synced := range slim.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Errorf("metadata of %v did not sync", kind)
		}
	}
	for name, lister := range map[string]cache.GenericLister{
		"whole": whole.ForResource(maps).Lister(),
		"slim":  slim.ForResource(maps).Lister(),
	} {
		if _, err := lister.ByNamespace(space).Get("seen"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// What an informer tells, in order.
type story struct {
	sync.Mutex
	lines []string
}

func (s *story) add(what string, object any) {
	if gone, is := object.(cache.DeletedFinalStateUnknown); is {
		object, what = gone.Obj, what+" some time ago"
	}
	s.Lock()
	defer s.Unlock()
	s.lines = append(s.lines, what+" "+object.(*corev1.ConfigMap).Name)
}

func (s *story) has(line string) bool {
	s.Lock()
	defer s.Unlock()
	return slices.Contains(s.lines, line)
}

// An informer whose connection is cut resumes: it misses nothing, repeats nothing and does
// not list again. CONC-113.
func TestInformersResume(t *testing.T) {
	config, wire := connect(t)
	client, space := namespace(t, protobuf(config))
	plain, _ := connect(t)
	others := kubernetes.NewForConfigOrDie(plain).CoreV1().ConfigMaps(space)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(space))
	informer := factory.Core().V1().ConfigMaps().Informer()
	told := &story{}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { told.add("added", object) },
		UpdateFunc: func(_, object any) { told.add("updated", object) },
		DeleteFunc: func(object any) { told.add("deleted", object) },
	})
	must(t, err)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())

	var expected []string
	for round := range 3 {
		name := fmt.Sprintf("round-%d", round)
		made, err := others.Create(t.Context(), configMap(name), metav1.CreateOptions{})
		must(t, err)
		eventually(t, name+" is seen", func() bool { return told.has("added " + name) })
		wire.cut()
		made.Data = map[string]string{"changed": "while nobody looked"}
		_, err = others.Update(t.Context(), made, metav1.UpdateOptions{})
		must(t, err)
		must(t, others.Delete(t.Context(), name, metav1.DeleteOptions{}))
		eventually(t, name+" is seen to go", func() bool { return told.has("deleted " + name) })
		expected = append(expected, "added "+name, "updated "+name, "deleted "+name)
	}
	told.Lock()
	defer told.Unlock()
	if !slices.Equal(told.lines, expected) {
		t.Errorf("told %v instead of %v", told.lines, expected)
	}
	if streams := wire.count(isStreamingList); streams != 1 {
		t.Errorf("%d streaming lists instead of one", streams)
	}
}

func TestRetryWatcherResumes(t *testing.T) {
	config, wire := connect(t)
	client, space := namespace(t, config)
	maps := client.CoreV1().ConfigMaps(space)
	list, err := maps.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	source := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "configmaps", space, everything)
	watcher, err := watchtools.NewRetryWatcherWithContext(t.Context(), list.ResourceVersion, source)
	must(t, err)
	defer watcher.Stop()
	for round := range 3 {
		name := fmt.Sprintf("round-%d", round)
		_, err := maps.Create(t.Context(), configMap(name), metav1.CreateOptions{})
		must(t, err)
		event := <-watcher.ResultChan()
		if got := event.Object.(*corev1.ConfigMap).Name; got != name {
			t.Fatalf("%s came instead of %s", got, name)
		}
		wire.cut()
	}
}
