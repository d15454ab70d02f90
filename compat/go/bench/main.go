// Program bench is the controller of compat/controllers on controller-runtime: it reads
// every ConfigMap of a namespace and says how late it was, what it used, and when it had
// seen them all.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const stop = "zz-stop"

type reader struct {
	client.Client
	began   time.Time
	objects int
	cancel  context.CancelFunc

	lock       sync.Mutex
	names      map[string]bool
	reconciles int
	late       map[string][]int64
	synced     bool
}

func (r *reader) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var object corev1.ConfigMap
	if err := r.Get(ctx, request.NamespacedName, &object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	r.reconciles++
	if load, text, found := strings.Cut(object.Annotations["sent"], ":"); found && r.synced {
		sent, err := strconv.ParseInt(text, 10, 64)
		if err == nil {
			r.late[load] = append(r.late[load], time.Now().UnixMicro()-sent)
		}
	}
	if object.Name == stop {
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
		r.cancel()
		return ctrl.Result{}, nil
	}
	r.names[object.Name] = true
	if !r.synced && len(r.names) == r.objects {
		r.synced = true
		r.say(map[string]any{"phase": "synced", "ms": time.Since(r.began).Milliseconds()})
	}
	return ctrl.Result{}, nil
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

func main() {
	objects, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	config := &rest.Config{Host: os.Args[1], QPS: -1}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{os.Args[2]: {}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	r := &reader{
		Client: manager.GetClient(), began: time.Now(), objects: objects, cancel: cancel,
		names: map[string]bool{}, late: map[string][]int64{},
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		Complete(r)
	if err != nil {
		log.Fatal(err)
	}
	if err := manager.Start(ctx); err != nil {
		log.Fatal(err)
	}
}
