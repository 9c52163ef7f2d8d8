package deploy_test

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
)

var (
	kinds = regexp.MustCompile(`(?m)^kind: (\S+)$`)
	args  = regexp.MustCompile(`(?m)^ {12}- "?(serve|30d|--[^"\n]*)"?$`)
)

// TestChart: helm lint accepts the chart, the rendered manifests follow the values, and the server accepts the rendered
// flags.
func TestChart(t *testing.T) {
	if *helmPath == "" {
		t.Skip("-helm is not given: make check PART=helm builds it")
	}
	const chart = "helm/daybook"
	must(t, exec.Command(*helmPath, "lint", "--strict", "--kube-version", "1.30.0", chart))
	render := func(set ...string) string {
		t.Helper()
		line := []string{"template", "queue", chart, "--namespace", "jobs", "--kube-version", "1.30.0"}
		for _, s := range set {
			line = append(line, "--set", s)
		}
		return must(t, exec.Command(*helmPath, line...))
	}
	kindsOf := func(text string) (all []string) {
		for _, m := range kinds.FindAllStringSubmatch(text, -1) {
			all = append(all, m[1])
		}
		slices.Sort(all)
		return all
	}
	plain := render()
	testkit.EqualSlices(t, kindsOf(plain), []string{"PodDisruptionBudget", "Service", "Service", "StatefulSet"}, "by default the chart")
	all := render("serviceMonitor.enabled=true", "networkPolicy.enabled=true", "podDisruptionBudget.enabled=false", "init=false", "allowHosts={queue.example}", `extraArgs={--retention,30d}`,
		"image.tag=1.2.3", "persistence.storageClassName=fast", "nodeSelector.disk=ssd", "podAnnotations.a=b", "imagePullSecrets[0].name=s", "priorityClassName=high", "env[0].name=GOMEMLIMIT,env[0].value=1GiB")
	testkit.EqualSlices(t, kindsOf(all), []string{"NetworkPolicy", "Service", "Service", "ServiceMonitor", "StatefulSet"}, "other values")
	for _, want := range []string{"image: \"daybook:1.2.3\"", "storageClassName: fast", "disk: ssd", "priorityClassName: high", "name: GOMEMLIMIT", "path: /readyz", "path: /healthz", "readOnlyRootFilesystem: true", "runAsNonRoot: true"} {
		testkit.Contains(t, all, want)
	}
	secure := render("tls.secretName=queue-tls", "serviceMonitor.enabled=true", "serviceMonitor.keySecret=scrape")
	for _, want := range []string{"secretName: queue-tls", "defaultMode: 0440", "path: /readyz, port: http, scheme: HTTPS", "scheme: https", "serverName: queue-daybook.jobs.svc", "name: scrape, key: key"} {
		testkit.Contains(t, secure, want)
	}
	testkit.Equal(t, strings.Count(secure, "scheme: HTTPS"), 3)
	testkit.Equal(t, strings.Count(all, "scheme: HTTP }"), 3)
	certificates := withCertificate(t, "tls.crt", "tls.key")
	binary := testkit.Must(daybooktest.Binary())(t)
	for name, c := range map[string]struct{ text, want, access string }{
		"by default":        {plain, "init = true", "insecure = true"},
		"with other values": {all, `retention = '30d'`, "insecure = true"},
		"with TLS":          {strings.ReplaceAll(secure, "=/tls/", "="+certificates+"/"), "tls-cert = '" + certificates + "/tls.crt'", "admin-key-file = '/data/admin.key'"},
	} {
		var line []string
		for _, m := range args.FindAllStringSubmatch(c.text, -1) {
			line = append(line, m[1])
		}
		testkit.MustHold(t, len(line) >= 8 && line[0] == "serve", name, "the arguments are", line)
		got := must(t, exec.Command(binary, append([]string{"config", "serve", "--toml", "--"}, line[1:]...)...))
		for _, want := range []string{c.want, c.access, "'/data'", "'0.0.0.0:1717'", "'queue-daybook'", "'*.jobs.svc.cluster.local'"} {
			testkit.Holds(t, strings.Contains(got, want), name, "the settings have no", want, got)
		}
	}
	testkit.Lacks(t, secure, "--insecure")
	testkit.Lacks(t, all, "- --init\n")
}
