package scenario

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"optik.compat/backup"
)

// A Backup as somebody applies it who cares for a part of its spec.
func partOf(name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(backup.GroupVersion.WithKind("Backup"))
	object.SetNamespace(space)
	object.SetName(name)
	return object
}
