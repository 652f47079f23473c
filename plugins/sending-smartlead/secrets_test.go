// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-smartlead/simulator"
)

// TestTheKeyIsShownNowhere: it travels in the URL, which Go's HTTP client quotes
// in its errors and which spans tell of. However a call ends, error, span and log
// are without it.
func TestTheKeyIsShownNowhere(t *testing.T) {
	const key = "canary-key"
	spans := tracetest.NewInMemoryExporter()
	before, log := otel.GetTracerProvider(), slog.Default()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	var logged bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})))
	t.Cleanup(func() { otel.SetTracerProvider(before); slog.SetDefault(log) })

	var asked atomic.Int64
	stuck := make(chan struct{}, 10)
	answer := func(fn http.HandlerFunc) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("api_key") == key {
				asked.Add(1)
			}
			fn(w, r)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	for name, base := range map[string]string{
		"nobody listens":    conformance.Nowhere(t),
		"the answer lost":   answer(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
		"no answer in time": answer(func(_ http.ResponseWriter, r *http.Request) { stuck <- struct{}{}; <-r.Context().Done() }),
		"refused":           answer(func(w http.ResponseWriter, r *http.Request) { fault(w, 401, `{"message":"Invalid API Key `+key+`"}`) }),
		"an echo":           answer(func(w http.ResponseWriter, r *http.Request) { fault(w, 400, `{"message":"`+r.URL.String()+`"}`) }),
		"a redirect":        answer(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.String(), http.StatusFound) }),
		"a strange code":    answer(func(w http.ResponseWriter, r *http.Request) { fault(w, 422, `{"errorCode":"`+key+`"}`) }),
		"no such host":      "http://no-such-host.invalid",
	} {
		p, err := newHouse().platform(sdk.Connection{Settings: map[string]string{"base_url": base}, Secrets: map[string]secret.Text{"api_key": secret.New(key)}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		go func() { // who waits for an answer gives up once the request is there
			select {
			case <-stuck:
				cancel()
			case <-ctx.Done():
			}
		}()
		_, err = p.Account(ctx, "anna@a.example")
		cancel()
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		shown := fmt.Sprintf("%v %+v %#v %+v", err, err, err, p)
		for next := err; next != nil; next = errors.Unwrap(next) {
			shown += fmt.Sprintf("%T %+v", next, next)
		}
		if strings.Contains(shown, key) {
			t.Errorf("%s: the error or the platform shows the key", name)
		}
	}
	n := asked.Load()
	if n < 6 {
		t.Fatalf("only %d requests had the key where this test looks for it", n)
	}
	if int64(len(spans.GetSpans())) < n {
		t.Fatalf("%d spans of %d calls", len(spans.GetSpans()), n)
	}
	var told []byte
	for _, s := range spans.GetSpans() {
		told = fmt.Appendf(told, "%s %+v %+v %+v", s.Name, s.Attributes, s.Events, s.Status)
	}
	if !bytes.Contains(told, []byte("127.0.0.1")) || bytes.Contains(told, []byte(key)) || bytes.Contains(told, []byte("anna")) {
		t.Errorf("the spans tell too much, or nothing: %s", told)
	}
	if strings.Contains(logged.String(), key) {
		t.Error("the log tells the key")
	}
}

func fault(w http.ResponseWriter, status int, body string) {
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

// TestThePasswordIsNeverRead: one of Smartlead's answers holds it in clear.
func TestThePasswordIsNeverRead(t *testing.T) {
	w := newWorld(t)
	w.put(t, connected("anna@a.example"))
	p := w.at("")
	a, err := p.Account(t.Context(), "anna@a.example")
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(w.Ready.Settings["base_url"] + "/email-accounts/" + a.ID + "/?api_key=" + simulator.Key)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var shown map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&shown); err != nil || shown["password"] == "" || shown["password"] == nil {
		t.Fatalf("the simulator shows no password: %v, %v", shown, err)
	}
	reach, err := p.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if told := fmt.Sprintf("%+v %+v", reach, a); strings.Contains(told, shown["password"].(string)) {
		t.Error("the password is told")
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[accountDoc]()) {
		if name := strings.ToLower(field.Tag.Get("json")); strings.Contains(name, "password") || field.Type.Kind() == reflect.Map {
			t.Errorf("%s has a place for it", field.Name)
		}
	}
}
