// Package clientgo shows that client-go's clients, informers and tools work on the server
// that KUBECONFIG names.
package clientgo

import (
	"context"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const patience = 30 * time.Second

// wire notes what a client sends, and can cut its connections.
type wire struct {
	sync.Mutex
	connections []net.Conn
	requests    []request
}

type request struct {
	method, query   string
	sent, got, path string
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, network, address)
	if err == nil {
		w.Lock()
		defer w.Unlock()
		w.connections = append(w.connections, connection)
	}
	return connection, err
}

func (w *wire) cut() {
	w.Lock()
	defer w.Unlock()
	for _, connection := range w.connections {
		connection.Close()
	}
	w.connections = nil
}

func (w *wire) count(matches func(request) bool) int {
	w.Lock()
	defer w.Unlock()
	count := 0
	for _, request := range w.requests {
		if matches(request) {
			count++
		}
	}
	return count
}

type noting struct {
	wire  *wire
	inner http.RoundTripper
}

func (n noting) RoundTrip(asked *http.Request) (*http.Response, error) {
	answer, err := n.inner.RoundTrip(asked)
	if err != nil {
		return answer, err
	}
	n.wire.Lock()
	defer n.wire.Unlock()
	n.wire.requests = append(n.wire.requests, request{
		method: asked.Method,
		path:   asked.URL.Path,
		query:  asked.URL.RawQuery,
		sent:   asked.Header.Get("Content-Type"),
		got:    answer.Header.Get("Content-Type"),
	})
	return answer, nil
}

func connect(t *testing.T) (*rest.Config, *wire) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = -1, -1
	wire := &wire{}
	config.Dial = wire.dial
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return noting{wire, inner} })
	return config, wire
}

// protobuf is how controllers of the control plane configure their clients.
func protobuf(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf
	return config
}

func namespace(t *testing.T, config *rest.Config) (*kubernetes.Clientset, string) {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(config)
	name := strings.ToLower(strings.ReplaceAll(t.Name(), "_", "-"))
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := client.CoreV1().Namespaces().Create(t.Context(), space, metav1.CreateOptions{})
	must(t, err)
	return client, name
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("within %v it did not come true that %s", patience, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
