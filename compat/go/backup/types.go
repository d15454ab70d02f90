// Package backup is the operator of examples/backup-operator as people write it with
// controller-runtime.
package backup

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

var GroupVersion = schema.GroupVersion{Group: "example.com", Version: "v1alpha1"}

type Backup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitempty"`
}

type Spec struct {
	Source        string `json:"source"`
	Image         string `json:"image"`
	RetentionDays int32  `json:"retentionDays,omitempty"`
}

type Status struct {
	Phase              string             `json:"phase,omitempty"`
	Job                string             `json:"job,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

type BackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Backup `json:"items"`
}

func (b *Backup) DeepCopy() *Backup {
	out := *b
	b.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.Conditions = slices.Clone(b.Status.Conditions)
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

// Scheme knows Backups and everything that is built in.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return scheme, AddToScheme(scheme)
}
