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
	"github.com/tenantry/tenantry/app/apptest"
)

// must ends the test if err is not nil.
var must = apptest.Must

func fileText(t testing.TB, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	must(t, err)
	return string(raw)
}

// waitTimeout is the longest time that a test waits for a response or a condition.
const waitTimeout = 5 * time.Minute

// programs is a folder of $TENANTRY_TEST_BIN. It has the binary of the service, and the plugins in
// the subfolder plugins. `make test-programs` builds them without the race detector, because
// that detector would make the embedded database many times slower.
type programs struct{ folder, binary string }

var (
	releaseBuild   = buildIn("release")
	failpointBuild = buildIn("failpoints")
	// previousBuild is the service before the last schema change. It has only the Microsoft 365
	// plugin.
	previousBuild = buildIn("previous")
	scratchDir    string // the folder for files that several tests use
)

func TestMain(m *testing.M) {
	var err error
	if scratchDir, err = os.MkdirTemp("", "tenantry-e2e-"); err != nil {
		panic(err)
	}
	// Most tests wait for other processes, so up to 8 tests run at once, even on a machine with 2
	// cores.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	_ = os.RemoveAll(scratchDir)
	os.Exit(code)
}

// buildIn returns a function that returns the programs in a folder of $TENANTRY_TEST_BIN, or an
// error if they were not built.
func buildIn(folder string) func() (programs, error) {
	return func() (programs, error) {
		build := programs{folder: filepath.Join(os.Getenv(testserver.ProgramsEnv), folder)}
		build.binary = filepath.Join(build.folder, "tenantry")
		_, err := os.Stat(build.binary)
		if err == nil && !filepath.IsAbs(build.binary) {
			err = errors.New(testserver.ProgramsEnv + " is not an absolute path")
		}
		if err != nil {
			err = fmt.Errorf("%w: run `make test`, or `make test-programs` and set %s to the absolute path of bin/test", err, testserver.ProgramsEnv)
		}
		return build, err
	}
}

// pluginDescriptions runs every bundled plugin with the argument `describe` and returns the
// concatenated outputs.
func pluginDescriptions(t *testing.T) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(requirePrograms(t, releaseBuild).folder, "plugins", "*-*"))
	if err != nil || len(files) < 4 {
		t.Fatalf("the bundled plugins are %v, want at least 4: %v", files, err)
	}
	var descriptions []byte
	for _, file := range files {
		description, err := exec.Command(file, "describe").Output()
		if err != nil {
			t.Fatalf("`%s describe` fails: %v", file, err)
		}
		descriptions = append(descriptions, description...)
	}
	return descriptions
}

// requirePrograms returns the programs of a build. It ends the test if they were not built.
func requirePrograms(t *testing.T, buildFunc func() (programs, error)) programs {
	t.Helper()
	build, err := buildFunc()
	must(t, err)
	return build
}

// object is a JSON object in a request or a response.
type object map[string]any

// text returns a member as text, or "" if the member is missing or null.
func (o object) text(name string) string {
	if o[name] == nil {
		return ""
	}
	return fmt.Sprint(o[name])
}

// objects returns a member that is a list of objects.
func (o object) objects(name string) []object {
	items, _ := o[name].([]any)
	objects := make([]object, 0, len(items))
	for _, item := range items {
		if member, ok := item.(map[string]any); ok {
			objects = append(objects, member)
		}
	}
	return objects
}

// client calls one running service.
type client struct {
	t     *testing.T
	ready sandbox.Ready
}

// reply is a response with its raw body and its parsed JSON object.
type reply struct {
	status int
	header http.Header
	raw    []byte
	object
}

// do sends a request to any URL of the service or of its control interface. It ends the test if no
// response arrives.
func (c client) do(method, url, key string, body any) reply {
	c.t.Helper()
	r, err := c.tryDo(method, url, key, body)
	if err != nil {
		c.t.Fatalf("%s %s got no response: %v", method, url, err)
	}
	return r
}

// tryDo is like do, for requests that may get no response.
func (c client) tryDo(method, url, key string, body any) (reply, error) {
	return c.tryWithKey(rand.Text(), method, url, key, body)
}

// retryWhileUnavailable is like tryWithKey with a path of the API, but repeats the request while
// the answer is idempotency_request_in_progress or service_unavailable. A busy service answers
// service_unavailable if a request waits too long for a database connection.
func (c client) retryWhileUnavailable(idempotencyKey, method, path, key string, body any) (got reply, err error) {
	c.eventually(method+" "+path+" is answered, and not in progress or unavailable", func() bool {
		got, err = c.tryWithKey(idempotencyKey, method, c.ready.APIURL+path, key, body)
		return err != nil || got.code() != "service_unavailable" && got.code() != "idempotency_request_in_progress"
	})
	return got, err
}

// tryWithKey is like tryDo with the given Idempotency-Key, for tests that repeat a write.
func (c client) tryWithKey(idempotencyKey, method, url, key string, body any) (reply, error) {
	payload := []byte(nil)
	if body != nil {
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return reply{}, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
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
		req.Header.Set("Idempotency-Key", idempotencyKey)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	return parseReply(answer, raw), err
}

// parseReply returns a response with its parsed body. The object is empty if the body is not a
// JSON object.
func parseReply(answer *http.Response, raw []byte) reply {
	got := reply{status: answer.StatusCode, header: answer.Header, raw: raw, object: object{}}
	_ = json.Unmarshal(raw, &got.object)
	return got
}

// callAPI calls the API with the API key of c.ready and no body.
func (c client) callAPI(method, path string) reply {
	c.t.Helper()
	return c.do(method, c.ready.APIURL+path, c.ready.APIKey, nil)
}

// control calls the control interface. It ends the test unless the answer is 200.
func (c client) control(method, path string, body any) reply {
	c.t.Helper()
	got := c.do(method, c.ready.ControlURL+path, "", body)
	if got.status != http.StatusOK {
		c.t.Fatalf("the control request %s %s is answered %d %s, want 200", method, path, got.status, got.raw)
	}
	return got
}

// eventually repeats a check every 100 ms until it succeeds. It ends the test after waitTimeout.
func (c client) eventually(event string, condition func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(waitTimeout); time.Now().Before(deadline); {
		if condition() {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
	c.t.Fatalf("did not happen within %s: %s", waitTimeout, event)
}
