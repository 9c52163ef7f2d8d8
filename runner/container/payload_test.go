package container

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/distribution/reference"
	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/containerjob"
	"github.com/daybookq/daybook/internal/testkit"
)

// FuzzDecode: whatever the payload, its image is in the list, its directory is in the workspace or the image, and its
// size is bounded.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"Container":{"Config":{"Image":"a:1","Cmd":["x"],"Env":["A=b"],"WorkingDir":"../a","User":"1:2","Labels":{"a":"b"},"StopSignal":"SIGINT"}},"Fileset":{"Input":{"Name":"a","Patterns":["**"],"Version":3},"Output":null}}`,
		`{"container":{"config":{"image":"docker.io/library/a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","working_dir":"/workspace/./b/../c","host_config":null}}}`,
		`{"Container":{"HostConfig":{"Privileged":true},"Config":{"Image":"a"}}}`,
	} {
		f.Add(seed)
	}
	images := testkit.Must(ParseImages([]string{"docker.io/library/a*:*", "docker.io/library/a@sha256:*", "r.example:5/x/*:?"}))(f)
	e := &Engine{Settings: Settings{Images: images}, rootless: true, workspaces: &workspaces{}}
	f.Fuzz(func(t *testing.T, payload string) {
		r := &run{engine: e, executor: &Executor{images: images}, job: &client.Job{ID: "j", Payload: []byte(payload)}}
		end, ok := r.read()
		if !ok {
			testkit.MustHold(t, end.Code == "failed" && end.Error != "" && len(end.Error) <= 2000, end)
			return
		}
		full := r.report.Image
		named, err := reference.ParseNamed(full)
		testkit.MustHold(t, err == nil && named.String() == full &&
			(strings.HasPrefix(full, "docker.io/library/a") || strings.HasPrefix(full, "r.example:5/x/")), "the image is", full, err)
		dir := inContainer(r.dir)
		testkit.MustHold(t, path.Clean(dir) == dir && path.IsAbs(dir) && !strings.HasPrefix(dir+"/", "/proc/") &&
			!strings.HasPrefix(dir+"/", "/sys/") && !strings.HasPrefix(dir+"/", "/dev/"), "the directory is", dir)
		testkit.MustHold(t, r.user == 0 && r.group == 0, "the user is", r.user, r.group)
		c := e.config(&r.document.Container.Config, r.job, dir, "0:0", "sha256:id")
		for name := range c.Labels {
			testkit.MustHold(t, strings.HasPrefix(name, "daybook."), "the label is", name)
		}
		testkit.MustHold(t, c.Image == "sha256:id" && len(c.Cmd) <= containerjob.MaxTexts &&
			len(c.Env) <= containerjob.MaxTexts+10 && len(c.Volumes) == 0 && !c.Tty, c)
	})
}

// TestExamplesOfDocuments: the payload on docs/reference/containers.md parses, and the page's report has the form of the
// real report.
func TestExamplesOfDocuments(t *testing.T) {
	page := testkit.Must(os.ReadFile("../../docs/reference/containers.md"))(t)
	examples := regexp.MustCompile("(?s)TestExamplesOfDocuments -->\n\n```json\n(.*?)\n```").FindAllSubmatch(page, -1)
	testkit.MustEqual(t, len(examples), 2, "the page", "examples")
	d, err := containerjob.Parse(examples[0][1])
	testkit.Check(t, err)
	testkit.Contains(t, fmt.Sprintf("%+v", d), "busybox:1.36")
	var r report
	testkit.Check(t, json.Unmarshal(examples[1][1], &r, json.RejectUnknownMembers(true)))
	var names []string
	for _, s := range r.Steps {
		names = append(names, s.Step)
	}
	want := []string{pullFileset, create, start, running, pushFileset}
	testkit.Holds(t, slices.Equal(names, want) && r.ExitCode != nil && r.Input != nil && r.Output != nil && r.LogAddr != "", "the report is", r)
}
