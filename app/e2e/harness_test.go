// SPDX-License-Identifier: Apache-2.0

package e2e

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
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/sandbox"
	"github.com/tenantry/tenantry/adapters/testserver"
)

// hang is how long a test waits for an event. Only a process that hangs takes this long.
const hang = 5 * time.Minute

// built is a folder of $TENANTRY_TEST_BIN with the binary of the service, and
// with its plugins in the folder plugins. `make test-programs` builds them,
// without the race detector, which makes the embedded database many times slower.
type built struct{ folder, binary string }

var (
	release    = builtIn("release")
	failpoints = builtIn("failpoints")
	// previous is the binary that this one replaces in an upgrade that changes the
	// schema. It has the plugin of Microsoft 365 only.
	previous = builtIn("previous")
	scratch  string
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

func builtIn(folder string) func() (built, error) {
	return func() (built, error) {
		b := built{folder: filepath.Join(os.Getenv(testserver.ProgramsEnv), folder)}
		b.binary = filepath.Join(b.folder, "tenantry")
		_, err := os.Stat(b.binary)
		if err == nil && !filepath.IsAbs(b.binary) {
			err = errors.New(testserver.ProgramsEnv + " is not an absolute path")
		}
		if err != nil {
			err = fmt.Errorf("%w: run `make test`, or `make test-programs` and set %s to the absolute path of bin/test", err, testserver.ProgramsEnv)
		}
		return b, err
	}
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

// object is a JSON object of an answer.
type object map[string]any

// text returns a member as text.
func (o object) text(name string) string { return fmt.Sprint(o[name]) }

// objects returns a member that is a list of objects.
func (o object) objects(name string) []object {
	items, _ := o[name].([]any)
	objects := make([]object, 0, len(items))
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			objects = append(objects, m)
		}
	}
	return objects
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

// patient is tryAs for a caller who sends the request again while the answer is 503: a
// busy database refuses what would wait too long for a connection.
func (c client) patient(once, method, path, key string, body any) (got reply, err error) {
	c.eventually(method+" "+path+" is not refused for now", func() bool {
		got, err = c.tryAs(once, method, c.ready.APIURL+path, key, body)
		return err != nil || got.code() != "service_unavailable"
	})
	return got, err
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
	ctx, cancel := context.WithTimeout(context.Background(), hang)
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

// eventually repeats a check until it succeeds.
func (c client) eventually(what string, good func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(hang); time.Now().Before(deadline); {
		if good() {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
	c.t.Fatalf("waited %s in vain: %s", hang, what)
}
