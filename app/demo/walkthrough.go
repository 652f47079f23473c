// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/tenantry/tenantry/adapters/sandbox"
)

// walkthrough is the state of one demo. Its methods call the API and the sandbox.
type walkthrough struct {
	out   io.Writer
	ready sandbox.Ready // the addresses and the content of the sandbox
	step  int           // the number of the current step, counted from 1
	hook  webhook
}

// uuidPattern matches the ids in API paths, which are printed as "{id}".
var uuidPattern = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// object is a JSON object of a request or an answer.
type object map[string]any

// text returns the value of a member as text.
func (o object) text(name string) string { return fmt.Sprint(o[name]) }

// objects returns the objects in an array member. It returns an empty list if the member is not an
// array.
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

// beginStep begins a new step and prints its heading.
func (w *walkthrough) beginStep(format string, args ...any) {
	w.step++
	_, _ = fmt.Fprintf(w.out, "\n%d. %s\n", w.step, fmt.Sprintf(format, args...))
}

// printLine prints a line below the heading of the step.
func (w *walkthrough) printLine(format string, args ...any) {
	_, _ = fmt.Fprintf(w.out, "   %s\n", fmt.Sprintf(format, args...))
}

// call sends one request to the API and prints it with its status and duration. It returns the
// answer and its status. It fails when there is no answer or when the answer is not JSON.
func (w *walkthrough) call(ctx context.Context, method, path string, body any) (object, int, error) {
	began := time.Now()
	answer, status, err := sendRequest(ctx, method, w.ready.APIURL+path, w.ready.APIKey, body)
	if err != nil {
		return nil, status, err
	}
	shownPath := uuidPattern.ReplaceAllString(strings.ReplaceAll(path, w.ready.Tenants[0].TenantID, "{tenant_id}"), "{id}")
	_, _ = fmt.Fprintf(w.out, "   %-6s %-62s %d  %s\n", method, shownPath, status, time.Since(began).Round(time.Millisecond))
	return answer, status, nil
}

// callOK is like call, but also fails when the status is 300 or higher.
func (w *walkthrough) callOK(ctx context.Context, method, path string, body any) (object, error) {
	answer, status, err := w.call(ctx, method, path, body)
	if err == nil && status >= 300 {
		err = fmt.Errorf("%s %s answered %d %s: %s", method, path, status, answer.text("code"), answer.text("detail"))
	}
	return answer, err
}

// callUntil repeats a call every second until done returns true for the answer and its status. It
// also repeats the call after a 503 or 504, as a real client can. It fails when a call fails, ctx is
// cancelled, or done returns false for an answer with a different status of 500 or higher.
func (w *walkthrough) callUntil(ctx context.Context, method, path string, body any, done func(object, int) bool) (object, error) {
	for {
		answer, status, err := w.call(ctx, method, path, body)
		switch {
		case err != nil:
			return nil, err
		case status == http.StatusGatewayTimeout, status == http.StatusServiceUnavailable:
		case done(answer, status):
			return answer, nil
		case status >= 500:
			return nil, fmt.Errorf("%s %s answered %d %s", method, path, status, answer.text("code"))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s %s: %w", method, path, ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// controlSandbox calls the control interface of the sandbox and prints the description of the call.
// The control interface simulates people, messages and time: for example, an administrator
// consents.
func (w *walkthrough) controlSandbox(ctx context.Context, description, path string, body any) error {
	began := time.Now()
	answer, status, err := sendRequest(ctx, http.MethodPost, w.ready.ControlURL+path, "", body)
	if err == nil && status >= 300 {
		err = fmt.Errorf("%s: the sandbox answered %d: %v", description, status, answer)
	}
	_, _ = fmt.Fprintf(w.out, "   %-69s      %s\n", description, time.Since(began).Round(time.Millisecond))
	return err
}

// sendRequest sends one request and returns the JSON object of the answer and its status. With an
// empty key the request has no Authorization header. A request other than GET has a new idempotency
// key.
func sendRequest(ctx context.Context, method, url, key string, body any) (object, int, error) {
	payload, err := json.Marshal(body)
	if err != nil {
		return nil, 0, err
	}
	if body == nil {
		payload = nil
	}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(payload))
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Accept", "application/json")
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if method != http.MethodGet {
		request.Header.Set("Idempotency-Key", rand.Text())
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	parsed := object{}
	if err := json.NewDecoder(response.Body).Decode(&parsed); err != nil {
		return nil, response.StatusCode, fmt.Errorf("%s %s answered %d without JSON", method, url, response.StatusCode)
	}
	return parsed, response.StatusCode, nil
}
