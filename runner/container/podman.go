package container

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
)

// askPodman finds out whether the engine is Podman, and if so, its capabilities. In its answers to Docker's API, Podman
// does not say that it is rootless, and claims limits that it cannot enforce.
func (e *Engine) askPodman(ctx context.Context) error {
	got, err := e.docker.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return err
	}
	e.podman = slices.ContainsFunc(got.Components, func(c system.ComponentVersion) bool { return c.Name == "Podman Engine" })
	if !e.podman {
		return nil
	}
	text, err := e.libpod(ctx, http.MethodGet, "info")
	if err != nil {
		return err
	}
	var info struct {
		Host struct {
			Security struct {
				Rootless       bool   `json:"rootless"`
				SeccompEnabled bool   `json:"seccompEnabled"`
				SeccompProfile string `json:"seccompProfilePath"`
			} `json:"security"`
			Controllers []string `json:"cgroupControllers"`
		} `json:"host"`
	}
	if err := json.Unmarshal(text, &info, json.MatchCaseInsensitiveNames(true)); err != nil {
		return fmt.Errorf("read what Podman says of itself: %w", err)
	}
	e.podmanFilter = info.Host.Security.SeccompProfile
	if !info.Host.Security.SeccompEnabled {
		e.info.SecurityOptions = slices.DeleteFunc(e.info.SecurityOptions, func(o string) bool { return strings.HasPrefix(o, "name=seccomp") })
	}
	if !info.Host.Security.Rootless {
		return nil
	}
	e.rootless = true
	has := func(controller string) bool { return slices.Contains(info.Host.Controllers, controller) }
	e.info.MemoryLimit, e.info.SwapLimit, e.info.PidsLimit, e.info.CPUCfsQuota = has("memory"), has("memory"), has("pids"), has("cpu")
	return nil
}

// initialize makes Podman prepare a container, as Docker does at creation. Before that, Podman lets nobody attach to the
// container, so the beginning of its output would be lost.
func (e *Engine) initialize(ctx context.Context, name string) error {
	_, err := e.libpod(ctx, http.MethodPost, "containers/"+url.PathEscape(name)+"/init")
	return err
}

// maxLibpodBytes bounds an answer of Podman's own API.
const maxLibpodBytes = 1 << 20

// libpod sends a request that Docker's API lacks, and returns the body of the answer.
func (e *Engine) libpod(ctx context.Context, method, path string) ([]byte, error) {
	dial := e.docker.Dialer()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, method, "http://podman/v4.0.0/libpod/"+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxLibpodBytes))
	if answer.StatusCode/100 != 2 { // report the status, even if reading the body failed
		return nil, fmt.Errorf("%s: %s", answer.Status, text[:min(len(text), 1<<10)])
	}
	return text, err
}
