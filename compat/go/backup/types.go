// Package backup is an operator as people write them with controller-runtime: a Backup is
// kept by a Deployment of its own.
package backup

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var GroupVersion = schema.GroupVersion{Group: "compat.example.com", Version: "v1alpha1"}

type Backup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitempty"`
}

type Spec struct {
	Source        string `json:"source"`
	RetentionDays int32  `json:"retentionDays,omitempty"`
}

type Status struct {
	Phase              string `json:"phase,omitempty"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	Checks             int32  `json:"checks,omitempty"`
}

type BackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Backup `json:"items"`
}

func (b *Backup) DeepCopy() *Backup {
	out := *b
	b.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (b *Backup) DeepCopyObject() runtime.Object { return b.DeepCopy() }

func (l *BackupList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Backup, len(l.Items))
	for at := range l.Items {
		out.Items[at] = *l.Items[at].DeepCopy()
	}
	return &out
}

func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Backup{}, &BackupList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
