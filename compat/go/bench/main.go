// Program bench is the controller of bench/src/controllers on controller-runtime: it reads
// every ConfigMap of a namespace and says how late it was, what it used, and when it had
// seen them all.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	logs "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	stop    = "zz-stop"
	catchUp = "catch-up"
)

type reader struct {
	client.Client
	task
	began  time.Time
	cancel context.CancelFunc

	lock       sync.Mutex
	there      []bool
	missing    int
	reconciles int
	late       map[string][]int64
}

// task is what a runtime is told.
type task struct {
	server, namespace    string
	objects, catchUp     int
	work                 time.Duration
	pages, managedFields bool
}

func (r *reader) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var object corev1.ConfigMap
	if err := r.Get(ctx, request.NamespacedName, &object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.note(&object)
	time.Sleep(r.work)
	return ctrl.Result{}, nil
}

// note says that a reconcile begins.
func (r *reader) note(object *corev1.ConfigMap) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.reconciles++
	if r.reconciles == 1 {
		r.say(map[string]any{"phase": "begun"})
	}
	r.noteLateness(object)
	if object.Name == stop {
		r.sayEnd()
		r.cancel()
		return
	}
	number, err := strconv.Atoi(strings.TrimPrefix(object.Name, "map-"))
	if err != nil || number >= len(r.there) || r.there[number] {
		return
	}
	r.there[number] = true
	r.missing--
	if r.missing == 0 {
		r.say(map[string]any{"phase": "synced", "ms": time.Since(r.began).Milliseconds()})
	}
}

func (r *reader) noteLateness(object *corev1.ConfigMap) {
	load, text, found := strings.Cut(object.Annotations["sent"], ":")
	if !found {
		return
	}
	sent, err := strconv.ParseInt(text, 10, 64)
	if err != nil || sent <= r.began.UnixMicro() {
		// It is of an earlier measurement.
		return
	}
	now := time.Now().UnixMicro()
	r.late[load] = append(r.late[load], now-sent)
	if load == catchUp && len(r.late[load]) == r.catchUp {
		r.say(map[string]any{"phase": "caught up", "at_us": now})
	}
}

func (r *reader) sayEnd() {
	late := map[string]any{}
	for load, values := range r.late {
		slices.Sort(values)
		late[load] = map[string]any{
			"p50_us": values[len(values)*50/100],
			"p99_us": values[len(values)*99/100],
			"count":  len(values),
		}
	}
	r.say(map[string]any{"phase": "done", "reconciles": r.reconciles, "late": late})
}

func (r *reader) say(line map[string]any) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	spent := usage.Utime.Nano() + usage.Stime.Nano()
	line["cpu_ms"] = time.Duration(spent).Milliseconds()
	line["rss_kb"] = status("VmRSS:")
	line["peak_kb"] = status("VmHWM:")
	text, err := json.Marshal(line)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
}

func status(field string) int {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) > 1 && words[0] == field {
			number, _ := strconv.Atoi(words[1])
			return number
		}
	}
	return 0
}

func parse() (task, error) {
	var t task
	millis := flag.Int("work-millis", 0, "how long each reconcile takes")
	flag.IntVar(&t.catchUp, "catch-up", 0, "how many changes it has to catch up with")
	flag.BoolVar(&t.pages, "pages", false, "lists in pages instead of a stream")
	flag.BoolVar(&t.managedFields, "managed-fields", false, "caches the ownership records of everybody, too")
	flag.Parse()
	if flag.NArg() != 3 {
		return t, fmt.Errorf("usage: bench [FLAGS] SERVER NAMESPACE OBJECTS")
	}
	t.server, t.namespace, t.work = flag.Arg(0), flag.Arg(1), time.Duration(*millis)*time.Millisecond
	var err error
	t.objects, err = strconv.Atoi(flag.Arg(2))
	return t, err
}

func run() error {
	t, err := parse()
	if err != nil {
		return err
	}
	if t.pages {
		// client-go reads it when the first list is made.
		if err := os.Setenv("KUBE_FEATURE_WatchListClient", "false"); err != nil {
			return err
		}
	}
	logs.SetLogger(logr.Discard())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config := &rest.Config{Host: t.server, QPS: -1}
	// It only reads.
	shared := true
	options := cache.Options{
		DefaultNamespaces:            map[string]cache.Config{t.namespace: {}},
		DefaultUnsafeDisableDeepCopy: &shared,
	}
	if !t.managedFields {
		options.DefaultTransform = cache.TransformStripManagedFields()
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}, Cache: options})
	if err != nil {
		return err
	}
	r := &reader{
		Client: manager.GetClient(), task: t, began: time.Now(), cancel: cancel,
		there: make([]bool, t.objects), missing: t.objects, late: map[string][]int64{},
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		Complete(r)
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
