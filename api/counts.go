package api

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/job"
)

// statusOrNull returns the name of a status, and nil for no status.
func statusOrNull(status job.Status) *string {
	if status == 0 {
		return nil
	}
	name := status.String()
	return &name
}

// counts are the numbers of jobs in each status, in the order of job.Statuses.
type counts job.Counts

func (c counts) MarshalJSONTo(to *jsontext.Encoder) error {
	if err := to.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, status := range job.Statuses {
		if err := to.WriteToken(jsontext.String(status.String())); err != nil {
			return err
		}
		if err := to.WriteToken(jsontext.Int(c[status])); err != nil {
			return err
		}
	}
	return to.WriteToken(jsontext.EndObject)
}
