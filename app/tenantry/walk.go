// SPDX-License-Identifier: Apache-2.0

package main

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

// walk is a caller of the API that shows what it does.
type walk struct {
	out   io.Writer
	ready sandbox.Ready
	step  int
}

// anyID matches what paths are made of, and says nothing to people.
var anyID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// object is a JSON answer.
type object map[string]any

func (o object) text(name string) string { return fmt.Sprint(o[name]) }

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

func (w *walk) title(format string, args ...any) {
	w.step++
	_, _ = fmt.Fprintf(w.out, "\n%d. %s\n", w.step, fmt.Sprintf(format, args...))
}

func (w *walk) note(format string, args ...any) {
	_, _ = fmt.Fprintf(w.out, "   %s\n", fmt.Sprintf(format, args...))
}

// call sends one request to the API and shows it with its answer's status and
// time. A write carries a new idempotency key.
func (w *walk) call(ctx context.Context, method, path string, body any) (object, int, error) {
	began := time.Now()
	answer, status, err := send(ctx, method, w.ready.APIURL+path, w.ready.APIKey, body)
	if err != nil {
		return nil, status, err
	}
	shown := anyID.ReplaceAllString(strings.ReplaceAll(path, w.ready.Tenants[0].TenantID, "{tenant_id}"), "{id}")
	_, _ = fmt.Fprintf(w.out, "   %-6s %-62s %d  %s\n", method, shown, status, time.Since(began).Round(time.Millisecond))
	return answer, status, nil
}

// must is a call whose failure ends the walk.
func (w *walk) must(ctx context.Context, method, path string, body any) (object, error) {
	answer, status, err := w.call(ctx, method, path, body)
	if err == nil && status >= 300 {
		err = fmt.Errorf("%s %s answered %d %s: %s", method, path, status, answer.text("code"), answer.text("detail"))
	}
	return answer, err
}

// until repeats a call until the answer is good, as a client does that waits
// for the mail platform.
func (w *walk) until(ctx context.Context, method, path string, body any, good func(object, int) bool) (object, error) {
	for {
		answer, status, err := w.call(ctx, method, path, body)
		if err != nil || good(answer, status) {
			return answer, err
		}
		if status >= 500 && status != http.StatusGatewayTimeout && status != http.StatusServiceUnavailable {
			return nil, fmt.Errorf("%s %s answered %d %s", method, path, status, answer.text("code"))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s %s: %w", method, path, ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// control asks the sandbox to do what the world does.
func (w *walk) control(ctx context.Context, what, path string, body any) error {
	began := time.Now()
	answer, status, err := send(ctx, http.MethodPost, w.ready.ControlURL+path, "", body)
	if err == nil && status >= 300 {
		err = fmt.Errorf("%s: the sandbox answered %d: %v", what, status, answer)
	}
	_, _ = fmt.Fprintf(w.out, "   %-69s      %s\n", what, time.Since(began).Round(time.Millisecond))
	return err
}

func send(ctx context.Context, method, url, key string, body any) (object, int, error) {
	payload, err := json.Marshal(body)
	if err != nil {
		return nil, 0, err
	}
	if body == nil {
		payload = nil
	}
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(payload))
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("Accept", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if method != http.MethodGet {
		r.Header.Set("Idempotency-Key", rand.Text())
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	parsed := object{}
	if err := json.NewDecoder(answer.Body).Decode(&parsed); err != nil {
		return nil, answer.StatusCode, fmt.Errorf("%s %s answered %d without JSON", method, url, answer.StatusCode)
	}
	return parsed, answer.StatusCode, nil
}
