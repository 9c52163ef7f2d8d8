package containerjob

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// inspected is the Config that docker inspect prints for a container of an image with a volume, a port and a health
// check. inspected20 is the same from Docker 20.10.
const (
	inspected = `{"Hostname":"4fdd1f2a3b4c","Domainname":"","User":"","AttachStdin":true,"AttachStdout":true,"AttachStderr":true,
		"ExposedPorts":{"5432/tcp":{}},"Tty":false,"OpenStdin":true,"StdinOnce":true,"Env":["PATH=/usr/bin:/bin","LANG=C"],
		"Cmd":["postgres"],"Healthcheck":{"Test":["CMD-SHELL","true"],"Interval":1000000000},"Image":"postgres:16",
		"Volumes":{"/var/lib/postgresql/data":{}},"WorkingDir":"","Entrypoint":["docker-entrypoint.sh"],"NetworkDisabled":true,
		"OnBuild":null,"Labels":{"maintainer":"ada"},"StopSignal":"SIGINT","StopTimeout":10,"Shell":["/bin/sh","-c"]}`
	inspected20 = `{"Hostname":"4fdd1f2a3b4c","Domainname":"example.org","User":"","AttachStdin":false,"AttachStdout":true,"AttachStderr":true,
		"Tty":false,"OpenStdin":false,"StdinOnce":false,"Env":[],"Cmd":["true"],"ArgsEscaped":true,"Image":"busybox","Volumes":null,
		"WorkingDir":"","Entrypoint":null,"MacAddress":"02:42:ac:11:00:02","OnBuild":["RUN true"],"Labels":{}}`
	// submitted is a job as etcdq's own submitter encodes it, with all fields of its Docker library's types.
	submitted = `{"Container":{"ID":"","Created":"0001-01-01T00:00:00Z","Path":"","Args":null,"Config":{"Hostname":"","Domainname":"","User":"",
		"Memory":0,"MemorySwap":0,"CpuShares":0,"Cpuset":"","AttachStdin":false,"AttachStdout":false,"AttachStderr":false,"PortSpecs":null,
		"ExposedPorts":null,"Tty":false,"OpenStdin":false,"StdinOnce":false,"Env":null,"Cmd":["sh","-c","echo 1 > a"],"Dns":null,
		"Image":"ubuntu","Volumes":null,"VolumesFrom":"","WorkingDir":"","Entrypoint":null,"NetworkDisabled":false},
		"State":{"Running":false,"Pid":0,"ExitCode":0,"StartedAt":"0001-01-01T00:00:00Z","FinishedAt":"0001-01-01T00:00:00Z","Ghost":false},
		"Image":"","NetworkSettings":null,"SysInitPath":"","ResolvConfPath":"","HostnamePath":"","HostsPath":"","Name":"","Driver":"",
		"Volumes":null,"VolumesRW":null,"HostConfig":{"Binds":null,"Privileged":false,"RestartPolicy":{"Name":"","MaximumRetryCount":0}}},
		"Fileset":{"Input":{"Name":"hello","Patterns":["**"]},"Output":{"Name":"","Patterns":["**"]}},"Owner":"",
		"States":[{"State":"QUEUED","Step":"","Date":"0001-01-01T00:00:00Z"}],"Result":null}`
)

func withConfig(config string) string { return `{"Container":{"Config":` + config + `}}` }

func TestParse(t *testing.T) {
	for name, payload := range map[string]string{
		"docker inspect": withConfig(inspected), "docker inspect of 20.10": withConfig(inspected20), "etcdq": submitted,
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Parse([]byte(payload))
			testkit.Holds(t, err == nil && d.Container.Config.Image != "" && d.Fileset.Output == nil, d, err)
		})
	}
	const whole = `{"Container":{"Config":{"Image":"a"FIELD}OF}}`
	for field, value := range map[string]string{
		"Tty": "1", "StopSignal": `"SIGNAL"`, "Memory": "5", "VolumesFrom": `"a"`, "Dns": `["1.1.1.1"]`, "SecurityOpt": `[""]`, "Hostname": `"-a"`, "Volumes": `{"a":{}}`,
		"AttachStdin": "1", "ExposedPorts": `"80"`, "StopTimeout": "-1", "User": `"root"`, "WorkingDir": `"/proc/self/fd/3"`, "Domainname": `"a b"`, "Cmd": `"true"`,
	} {
		_, err := Parse([]byte(strings.NewReplacer("FIELD", `,"`+field+`":`+value, "OF", "").Replace(whole)))
		testkit.Holds(t, errors.Is(err, ErrRefused) && strings.Contains(err.Error(), field), "Config.", field, "=", value, err)
	}
	for field, value := range map[string]string{
		"HostConfig": `{"Binds":["/:/mnt"]}`, "Mounts": `[{"Source":"/"}]`, "Unknown": `{"a":{"b":[{}]}}`, "RestartCount": `"1"`,
	} {
		_, err := Parse([]byte(strings.NewReplacer("OF", `,"`+field+`":`+value, "FIELD", "").Replace(whole)))
		testkit.Holds(t, errors.Is(err, ErrRefused) && strings.Contains(err.Error(), field), "Container.", field, "=", value, err)
	}
	for payload, says := range map[string]string{
		`busybox`:           "such as {\"Container\":{\"Config\":{\"Image\":\"alpine\",\"Cmd\":[\"true\"]}}}: invalid character 'b' at start of value after 0 bytes",
		`{"Container":{},}`: "after 15 bytes",
		`["Container"]`:     "such as {\"Container\"",
		`{"nonsense":1}`:    "nonsense", `{}`: "Image", ``: "JSON object", `[]`: "JSON object", `7`: "JSON object", "text": "JSON object",
		`{"Container":{"Config":{"Image":"a"}},"States":[{"State":"FINISHED"}]}`:            "States[0].State",
		`{"Container":{"Config":{"Image":"a"}},"States":[{"State":"QUEUED","Else":1}]}`:     "States[0].Else",
		`{"Container":{"Config":{"Image":"a"}},"States":"QUEUED"}`:                          "States",
		`{"Container":{"Config":{"Image":"a"}},"Owner":"i-1"}`:                              "Owner",
		`{"Container":{"Config":{"Image":"a"}},"Result":{"Status":"SUCCESS"}}`:              "Result",
		`{"Container":{"Config":{"Image":"a"}},"Fileset":{"Input":{"Patterns":["a"]}}}`:     "no name",
		`{"Container":{"Config":{"Image":"a"}},"Fileset":{"Input":"a"}}`:                    "Input",
		`{"Container":{"Config":{"Image":"a","image":"b"}}}`:                                "JSON object",
		`{"Container":{"Config":{"Image":"a"}},"Fileset":{"Output":{"Name":"a","Mode":1}}}`: "Mode",
	} {
		_, err := Parse([]byte(payload))
		testkit.Holds(t, errors.Is(err, ErrRefused) && strings.Contains(err.Error(), says), payload, err)
	}
}

// TestInspected: Parse accepts the Config of containers of public images as docker inspect prints it.
func TestInspected(t *testing.T) {
	const around = `{"Hostname":"0b9a3c5d7e1f","Domainname":"","User":"","AttachStdin":false,"AttachStdout":true,"AttachStderr":true,"Tty":false,
		"OpenStdin":false,"StdinOnce":false,"OnBuild":null,"Labels":{},`
	for name, c := range map[string]struct{ config, dir string }{
		"alpine, interactive": {`{"Hostname":"1c2d3e4f5a6b","Domainname":"","User":"","AttachStdin":true,"AttachStdout":true,"AttachStderr":true,
			"Tty":true,"OpenStdin":true,"StdinOnce":true,"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
			"Cmd":["/bin/sh"],"Image":"alpine:3.20","Volumes":null,"WorkingDir":"/","Entrypoint":null,"OnBuild":null,"Labels":{}}`, "/"},
		"debian": {around + `"Env":["PATH=/usr/local/sbin:/usr/bin"],"Cmd":["bash"],"Image":"debian:12","Volumes":null,"WorkingDir":"/","Entrypoint":null}`, "/"},
		"nginx": {around + `"ExposedPorts":{"80/tcp":{}},"Env":["PATH=/usr/bin","NGINX_VERSION=1.27.2","PKG_RELEASE=1~bookworm","DYNPKG_RELEASE=1~bookworm"],
			"Cmd":["nginx","-g","daemon off;"],"Image":"nginx","Volumes":null,"WorkingDir":"","Entrypoint":["/docker-entrypoint.sh"],"StopSignal":"SIGQUIT"}`, "."},
		"postgres": {around + `"ExposedPorts":{"5432/tcp":{}},"Env":["POSTGRES_PASSWORD=x","PATH=/usr/bin","GOSU_VERSION=1.17","LANG=en_US.utf8","PGDATA=/var/lib/postgresql/data"],
			"Cmd":["postgres"],"Image":"postgres:17","Volumes":{"/var/lib/postgresql/data":{}},"WorkingDir":"/","Entrypoint":["docker-entrypoint.sh"],"StopSignal":"SIGINT"}`, "/"},
		"redis": {around + `"ExposedPorts":{"6379/tcp":{}},"Env":["PATH=/usr/bin","REDIS_VERSION=7.4.1"],"Cmd":["redis-server"],"ArgsEscaped":true,"Image":"redis:7",
			"Volumes":{"/data":{}},"WorkingDir":"/data","Entrypoint":["docker-entrypoint.sh"]}`, "/data"},
		"httpd": {around + `"ExposedPorts":{"80/tcp":{}},"Env":["HTTPD_PREFIX=/usr/local/apache2"],"Cmd":["httpd-foreground"],"Image":"httpd:2.4","Volumes":null,
			"WorkingDir":"/usr/local/apache2","Entrypoint":null,"StopSignal":"SIGWINCH"}`, "/usr/local/apache2"},
		"of systemd, with a health check": {around + `"Env":null,"Cmd":["/sbin/init"],"Image":"systemd","Volumes":{"/run":{}},"WorkingDir":"","Entrypoint":null,"StopSignal":"SIGRTMIN+3",
			"StopTimeout":10,"Healthcheck":{"Test":["CMD","true"],"Interval":30000000000,"Timeout":3000000000,"StartInterval":5000000000,"Retries":3},"Shell":["/bin/bash","-o","pipefail","-c"]}`, "."},
		"of distroless":          {around + `"Env":["SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],"Cmd":null,"Image":"gcr.io/distroless/static","WorkingDir":"/home/nonroot","Entrypoint":null,"MacAddress":"02:42:ac:11:00:02"}`, "/home/nonroot"},
		"a signal by its number": {around + `"Cmd":null,"Image":"a","WorkingDir":"/workspace","StopSignal":"37"}`, "."},
	} {
		d, err := Parse([]byte(withConfig(c.config)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		testkit.Equal(t, testkit.Must(d.Container.Config.Directory())(t), c.dir, name, "the directory")
	}
	for _, user := range []string{"root", "nonroot:nonroot", "www-data", "0", "1000:0"} {
		_, err := Parse([]byte(withConfig(`{"Image":"a","User":"` + user + `"}`)))
		testkit.Holds(t, errors.Is(err, ErrRefused) && strings.Contains(err.Error(), "`id NAME` shows the numbers"), "user", user, err)
	}
	for _, signal := range []string{"0", "65", "SIG", "SIGRTMIN+16", "SIGRTMAX-15", "9; reboot", " 9", "SIGNULL"} {
		_, err := Parse([]byte(withConfig(`{"Image":"a","StopSignal":"` + signal + `"}`)))
		testkit.Holds(t, errors.Is(err, ErrRefused), "signal", signal, err)
	}
}

// TestParseDeep: the work for a deeply nested value grows only with its length.
func TestParseDeep(t *testing.T) {
	const deep = 9000
	payload := `{"Container":{"Config":{"Image":"a"}},"Other":` + strings.Repeat(`{"a":`, deep) + "1" + strings.Repeat("}", deep) + "}"
	allocated := testing.AllocsPerRun(1, func() { testkit.Fails(Parse([]byte(payload)))(t, ErrRefused) })
	testkit.Holds(t, allocated <= 10*deep, fmt.Sprintf("%.0f", allocated), "allocations")
}
