package answer

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/job"
)

// StatusOrNull returns the name of a status, and nil for no status.
func StatusOrNull(status job.Status) *string {
	if status == 0 {
		return nil
	}
	name := status.String()
	return &name
}

// Counts are the numbers of jobs in each status, in the order of job.Statuses.
type Counts job.Counts

func (c Counts) MarshalJSONTo(to *jsontext.Encoder) error {
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
