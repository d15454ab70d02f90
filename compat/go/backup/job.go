package backup

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	Pending   = "Pending"
	Running   = "Running"
	Succeeded = "Succeeded"
	Failed    = "Failed"
)

// jobOf follows from the Backup alone: the same each time it is asked.
func jobOf(backup *Backup) *batchv1.Job {
	retries := int32(3)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: backup.Namespace,
			Name:      fmt.Sprintf("%s-%d", backup.Name, backup.Generation),
		},
		Spec: batchv1.JobSpec{
			BackoffLimit: &retries,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers:    []corev1.Container{{Name: "copy", Image: backup.Spec.Image, Args: []string{backup.Spec.Source}}},
				RestartPolicy: corev1.RestartPolicyNever,
			}},
		},
	}
}

func phase(job *batchv1.Job) string {
	switch {
	case condition(job, batchv1.JobComplete) != nil:
		return Succeeded
	case condition(job, batchv1.JobFailed) != nil:
		return Failed
	case job.Status.Active > 0:
		return Running
	}
	return Pending
}

func ended(job *batchv1.Job) *metav1.Time {
	for _, kind := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		if found := condition(job, kind); found != nil {
			return &found.LastTransitionTime
		}
	}
	return nil
}

func condition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for at := range job.Status.Conditions {
		found := &job.Status.Conditions[at]
		if found.Type == kind && found.Status == corev1.ConditionTrue {
			return found
		}
	}
	return nil
}
