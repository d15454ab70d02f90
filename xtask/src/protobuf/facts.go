// Command facts prints what Go's struct tags say about the messages of the built-in
// kinds, as `cargo xtask protobuf` reads it.
//
// To run it: put it into a module that requires k8s.io/kubernetes (with the replaces
// that module needs), then `go run . >facts.json`.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// What the default server serves.
var served = []string{
	"v1", "admissionregistration.k8s.io/v1", "apidiscovery.k8s.io/v2", "apiextensions.k8s.io/v1",
	"apiregistration.k8s.io/v1", "apps/v1", "authentication.k8s.io/v1",
	"authorization.k8s.io/v1", "autoscaling/v1", "autoscaling/v2", "batch/v1",
	"certificates.k8s.io/v1", "coordination.k8s.io/v1", "discovery.k8s.io/v1",
	"events.k8s.io/v1", "flowcontrol.apiserver.k8s.io/v1", "networking.k8s.io/v1",
	"node.k8s.io/v1", "policy/v1", "rbac.authorization.k8s.io/v1", "resource.k8s.io/v1",
	"scheduling.k8s.io/v1", "storage.k8s.io/v1",
}

// Kinds that belong to every group.
var common = []runtime.Object{
	&meta.APIGroup{}, &meta.APIGroupList{}, &meta.APIResourceList{}, &meta.APIVersions{},
	&meta.CreateOptions{}, &meta.DeleteOptions{}, &meta.GetOptions{}, &meta.List{},
	&meta.ListOptions{}, &meta.PartialObjectMetadata{}, &meta.PartialObjectMetadataList{},
	&meta.PatchOptions{}, &meta.Status{}, &meta.UpdateOptions{},
}

type field struct {
	Number   int    `json:"number"`
	Name     string `json:"name"`
	Type     string `json:"type"`
	Repeated bool   `json:"repeated,omitempty"`
	Map      bool   `json:"map,omitempty"`
	Pointer  bool   `json:"pointer,omitempty"`
	// Left out of JSON when empty.
	OmitEmpty bool `json:"omitEmpty,omitempty"`
	OmitZero  bool `json:"omitZero,omitempty"`
	Inline    bool `json:"inline,omitempty"`
}

type facts struct {
	Kinds    map[string]string  `json:"kinds"`
	Messages map[string][]field `json:"messages"`
	// Messages whose JSON is made by hand.
	Own map[string]bool `json:"own"`
}

var (
	out       = facts{map[string]string{}, map[string][]field{}, map[string]bool{}}
	marshaler = reflect.TypeFor[json.Marshaler]()
)

func main() {
	must(apidiscovery.AddToScheme(scheme.Scheme))
	must(apiextensions.AddToScheme(scheme.Scheme))
	must(apiregistration.AddToScheme(scheme.Scheme))
	metaPackage := reflect.TypeFor[meta.Time]().PkgPath()
	for _, text := range served {
		gv, err := schema.ParseGroupVersion(text)
		must(err)
		for kind, t := range scheme.Scheme.KnownTypes(gv) {
			if t.PkgPath() != metaPackage && marshals(t) {
				out.Kinds[text+" "+kind] = visit(t)
			}
		}
	}
	for _, object := range common {
		t := reflect.TypeOf(object).Elem()
		out.Kinds["* "+t.Name()] = visit(t)
	}
	out.Kinds["* WatchEvent"] = visit(reflect.TypeFor[meta.WatchEvent]())
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	must(encoder.Encode(out))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func marshals(t reflect.Type) bool {
	_, yes := reflect.PointerTo(t).MethodByName("MarshalToSizedBuffer")
	return yes
}

func name(t reflect.Type) string {
	parts := strings.Split(t.PkgPath(), "/")
	return strings.Join(parts[len(parts)-2:], "/") + "." + t.Name()
}

func visit(t reflect.Type) string {
	name := name(t)
	if _, known := out.Messages[name]; known {
		return name
	}
	out.Messages[name] = []field{}
	if reflect.PointerTo(t).Implements(marshaler) || t.Kind() != reflect.Struct {
		out.Own[name] = true
	}
	if t.Kind() == reflect.Slice {
		out.Messages[name] = []field{{Number: 1, Name: "items", Type: "string", Repeated: true}}
		return name
	}
	fields := []field{}
	for i := 0; i < t.NumField(); i++ {
		if f, yes := read(t, t.Field(i)); yes {
			fields = append(fields, f)
		}
	}
	out.Messages[name] = fields
	return name
}

func read(owner reflect.Type, f reflect.StructField) (field, bool) {
	tag, tagged := f.Tag.Lookup("protobuf")
	if !tagged || tag == "-" {
		return field{}, false
	}
	words := strings.Split(tag, ",")
	number, err := strconv.Atoi(words[1])
	must(err)
	result := field{Number: number}
	options := strings.Split(f.Tag.Get("json"), ",")
	result.Name = options[0]
	for _, option := range options[1:] {
		switch option {
		case "omitempty":
			result.OmitEmpty = true
		case "omitzero":
			result.OmitZero = true
		case "inline":
			result.Inline = true
		}
	}
	if result.Name == "" && f.Anonymous {
		result.Inline = true
	}
	t := f.Type
	if t.Kind() == reflect.Pointer {
		result.Pointer = true
		t = t.Elem()
	}
	switch {
	case marshals(t) && t.Kind() == reflect.Slice:
		result.Type = visit(t)
	case t.Kind() == reflect.Map:
		if t.Key().Kind() != reflect.String {
			panic(owner.String() + "." + f.Name)
		}
		result.Map = true
		result.Type = plain(t.Elem())
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		result.Repeated = true
		result.Type = plain(t.Elem())
	default:
		result.Type = plain(t)
	}
	if result.Name == "" && !result.Inline || result.Name == "-" {
		fmt.Fprintln(os.Stderr, "no JSON name:", owner, f.Name, f.Tag)
	}
	return result, true
}

func plain(t reflect.Type) string {
	if marshals(t) {
		return visit(t)
	}
	switch t.Kind() {
	case reflect.Bool, reflect.Int32, reflect.Int64, reflect.String:
		return t.Kind().String()
	case reflect.Float64:
		return "double"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
	}
	panic(t.String())
}
