// SPDX-License-Identifier: Apache-2.0

// Package deploy contains the files for production: image, chart, unit, proxies, alerts, dashboard
// and application registration. The tests of this package and of app/e2e compare these files with
// the code. Tests that need a connected tenant are in app/e2e.
//
//   - container_test.go, helm_test.go, systemd_test.go, proxy_test.go: the tests by folder.
//   - fixture_test.go: serve, which starts a service, and object, a JSON object.
package deploy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenantry/tenantry/app/settings"
)

type object map[string]any

func (o object) text(name string) string { return fmt.Sprint(o[name]) }

// objects returns the objects of a list. It omits elements that are not objects.
func (o object) objects(name string) (list []object) {
	items, _ := o[name].([]any)
	for _, item := range items {
		if member, ok := item.(map[string]any); ok {
			list = append(list, member)
		}
	}
	return list
}

// member returns a member of nested objects by its path, for example "spec.template".
func (o object) member(path string) any {
	var value any = map[string]any(o)
	for name := range strings.SplitSeq(path, ".") {
		m, _ := value.(map[string]any)
		value = m[name]
	}
	return value
}

// checkMembers compares members with the wanted values. The names in want are the paths of the
// members.
func checkMembers(t *testing.T, o object, want object) {
	t.Helper()
	for path, value := range want {
		if got := o.member(path); fmt.Sprint(got) != fmt.Sprint(value) {
			t.Errorf("%s is %v, want %v", path, got, value)
		}
	}
}

func fileText(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// defaultDrainTime returns the default of drain_time.
func defaultDrainTime(t *testing.T) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(fmt.Sprint(settings.Defaults()["drain_time"]))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// serve runs a service on free ports until the test ends. It returns the line that the service logs
// when it is ready. The members api and admin of this line are the URLs of the listeners.
func serve(t *testing.T, program string, env []string) object {
	t.Helper()
	cmd := exec.Command(program, "serve")
	cmd.Env = append(env, "TENANTRY_LISTEN=127.0.0.1:0", "TENANTRY_ADMIN_LISTEN=127.0.0.1:0", "TENANTRY_DRAIN_DELAY=0s")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	logs, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, logs)
		_ = cmd.Wait()
	})
	var logged bytes.Buffer
	for lines := bufio.NewScanner(logs); lines.Scan(); {
		var line object
		if json.Unmarshal(lines.Bytes(), &line) == nil && line["msg"] == "serving" {
			go func() { _, _ = io.Copy(io.Discard, logs) }()
			return line
		}
		logged.Write(append(lines.Bytes(), '\n'))
	}
	t.Fatalf("the service ended before it was ready:\n%s", &logged)
	return nil
}

// runCommand runs a command of the operator and returns the JSON object that it prints.
func runCommand(t *testing.T, program string, env []string, args ...string) (printed object) {
	t.Helper()
	cmd := exec.Command(program, append(args, "--output", "json")...)
	cmd.Env = env
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &printed)
	}
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return printed
}

// get requests a URL with an API key, or without a key if key is empty. It returns the status and
// the JSON object of the answer, or nil if the answer is not a JSON object.
func get(t *testing.T, url, key string) (status int, answer object) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	_ = json.NewDecoder(response.Body).Decode(&answer)
	return response.StatusCode, answer
}
