// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/sandbox"
)

// built holds the binaries that tests start, built once without the race
// detector, which makes the embedded database many times slower.
type built struct{ folder, binary string }

var (
	release    = sync.OnceValues(func() (built, error) { return buildIn(".", "release") })
	failpoints = sync.OnceValues(buildFailpoints)
	scratch    string
)

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "tenantry-e2e-"); err != nil {
		panic(err)
	}
	// Most tests wait for other processes, so there are more of them at a
	// time than cores.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// buildIn makes what `make build` makes of the source of which folder is the
// main package, in a folder of its own.
func buildIn(folder, name string) (built, error) {
	b := builtAs(name)
	sources, err := filepath.Glob(filepath.Join(folder, "../../plugins/*/main.go"))
	if err != nil {
		return b, err
	}
	dir := filepath.Join(b.folder, "plugins")
	plugins, add := []string{"build", "-o", dir + "/"}, []string{"plugin", "add", "--plugin-dir", dir}
	err = in(folder, "go", "build", "-o", b.binary, ".")
	for _, source := range sources {
		home := filepath.Dir(source)
		file := filepath.Join(dir, filepath.Base(home))
		add = append(add, file)
		// A plugin with a module of its own is built in its folder.
		if _, none := os.Stat(filepath.Join(home, "go.mod")); none == nil {
			err = errors.Join(err, in(home, "go", "build", "-o", file, "."))
			continue
		}
		plugins = append(plugins, "../../plugins/"+filepath.Base(home))
	}
	return b, errors.Join(err, in(folder, "go", plugins...), in(folder, b.binary, add...))
}

// buildFailpoints takes the plugins of the release, which hold no failpoints.
func buildFailpoints() (built, error) {
	b := builtAs("failpoints")
	from, err := release()
	if err != nil {
		return b, err
	}
	return b, errors.Join(in(".", "go", "build", "-tags", "failpoints", "-o", b.binary, "."),
		os.CopyFS(filepath.Join(b.folder, "plugins"), os.DirFS(filepath.Join(from.folder, "plugins"))))
}

func builtAs(name string) built {
	folder := filepath.Join(scratch, name)
	return built{folder, filepath.Join(folder, "tenantry")}
}

// in runs a program in a folder.
func in(folder, program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// descriptions are what all bundled plugins say of themselves, one document after
// the other.
func descriptions(t *testing.T) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(binary(t, release).folder, "plugins", "*-*"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%v: %v", files, err)
	}
	var all []byte
	for _, file := range files {
		one, err := exec.Command(file, "describe").Output()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, one...)
	}
	return all
}

func binary(t *testing.T, make func() (built, error)) built {
	t.Helper()
	b, err := make()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// client calls one started service.
type client struct {
	t     *testing.T
	ready sandbox.Ready
}

// reply is an answer with its raw body.
type reply struct {
	status int
	header http.Header
	raw    []byte
	object
}

// do sends a request to any URL of the service or its control interface.
func (c client) do(method, url, key string, body any) reply {
	c.t.Helper()
	r, err := c.try(method, url, key, body)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, url, err)
	}
	return r
}

// try is do for calls that may fail on the way.
func (c client) try(method, url, key string, body any) (reply, error) {
	return c.tryAs(rand.Text(), method, url, key, body)
}

// tryAs is try for writes that are sent again with the same Idempotency-Key.
func (c client) tryAs(once, method, url, key string, body any) (reply, error) {
	payload := []byte(nil)
	if body != nil {
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return reply{}, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(payload))
	if err != nil {
		return reply{}, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if method != http.MethodGet {
		req.Header.Set("Idempotency-Key", once)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	return parsed(answer, raw), err
}

func parsed(answer *http.Response, raw []byte) reply {
	got := reply{status: answer.StatusCode, header: answer.Header, raw: raw, object: object{}}
	_ = json.Unmarshal(raw, &got.object)
	return got
}

// api calls the API with the seeded key, control the control interface.
func (c client) api(method, path string, body any) reply {
	c.t.Helper()
	return c.do(method, c.ready.APIURL+path, c.ready.APIKey, body)
}

func (c client) control(method, path string, body any) reply {
	c.t.Helper()
	got := c.do(method, c.ready.ControlURL+path, "", body)
	if got.status != http.StatusOK {
		c.t.Fatalf("control %s %s: %d %s", method, path, got.status, got.raw)
	}
	return got
}

// eventually repeats a call until it is good.
func (c client) eventually(what string, good func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); {
		if good() {
			return
		}
		<-time.After(200 * time.Millisecond)
	}
	c.t.Fatalf("not in a minute: %s", what)
}
