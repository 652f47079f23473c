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

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-smartlead/simulator"
)

// TestErrorsSpansAndLogsHideTheKey makes calls fail in different ways, and searches the errors, the
// spans and the log for the key. The key is in the URL. Go's HTTP client quotes the URL in its
// errors, and spans could contain the URL.
func TestErrorsSpansAndLogsHideTheKey(t *testing.T) {
	const key = "canary-key"
	spans := tracetest.NewInMemoryExporter()
	previousProvider, previousLogger := otel.GetTracerProvider(), slog.Default()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	var logged bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})))
	t.Cleanup(func() { otel.SetTracerProvider(previousProvider); slog.SetDefault(previousLogger) })

	var requests atomic.Int64
	hanging := make(chan struct{}, 10)
	startServer := func(answer http.HandlerFunc) string {
		span := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("api_key") == key {
				requests.Add(1)
			}
			answer(w, r)
		}))
		t.Cleanup(span.Close)
		return span.URL
	}
	for name, base := range map[string]string{
		"connection refused": conformance.UnreachableURL(t),
		"answer lost":        startServer(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
		"a canceled call":    startServer(func(_ http.ResponseWriter, r *http.Request) { hanging <- struct{}{}; <-r.Context().Done() }),
		"refused":            startServer(func(w http.ResponseWriter, r *http.Request) { reply(w, 401, `{"message":"Invalid API Key `+key+`"}`) }),
		"an echo":            startServer(func(w http.ResponseWriter, r *http.Request) { reply(w, 400, `{"message":"`+r.URL.String()+`"}`) }),
		"a redirect":         startServer(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.String(), http.StatusFound) }),
		"a strange code":     startServer(func(w http.ResponseWriter, r *http.Request) { reply(w, 422, `{"errorCode":"`+key+`"}`) }),
		"no such host":       "http://no-such-host.invalid",
	} {
		platform, err := newProcessState().newPlatform(sdk.Connection{Settings: map[string]string{"base_url": base}, Secrets: map[string]sdk.Secret{"api_key": sdk.NewSecret(key)}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		go func() { // cancels the call once the server has received its request
			select {
			case <-hanging:
				cancel()
			case <-ctx.Done():
			}
		}()
		_, err = platform.Account(ctx, "anna@a.example")
		cancel()
		if err == nil {
			t.Errorf("%s: the call succeeds, want an error", name)
		}
		texts := fmt.Sprintf("%v %+v %#v %+v", err, err, err, platform)
		for cause := err; cause != nil; cause = errors.Unwrap(cause) {
			texts += fmt.Sprintf("%T %+v", cause, cause)
		}
		if strings.Contains(texts, key) {
			t.Errorf("%s: the error or the platform shows the key", name)
		}
	}
	received := requests.Load()
	if received < 6 { // six of the bases are servers
		t.Fatalf("only %d requests had the key in the query, want at least 6", received)
	}
	if int64(len(spans.GetSpans())) < received {
		t.Fatalf("%d spans, want at least one for each of the %d requests", len(spans.GetSpans()), received)
	}
	var spanText []byte
	for _, span := range spans.GetSpans() {
		spanText = fmt.Appendf(spanText, "%s %+v %+v %+v", span.Name, span.Attributes, span.Events, span.Status)
	}
	if !bytes.Contains(spanText, []byte("127.0.0.1")) || bytes.Contains(spanText, []byte(key)) || bytes.Contains(spanText, []byte("anna")) {
		t.Errorf("the spans are %s, want the host 127.0.0.1, and neither the key nor the mailbox", spanText)
	}
	if strings.Contains(logged.String(), key) {
		t.Error("the log contains the key")
	}
}

// reply answers with a status and a body.
func reply(w http.ResponseWriter, status int, body string) {
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

// TestAccountPasswordIsNotDecoded covers the answer of Smartlead that contains the password of an
// account in plain text.
func TestAccountPasswordIsNotDecoded(t *testing.T) {
	env := newTestEnv(t)
	env.createConnected("anna@a.example")
	platform := env.platformFor("")
	account, err := platform.Account(t.Context(), "anna@a.example")
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(env.Ready.Settings["base_url"] + "/email-accounts/" + account.ID + "/?api_key=" + simulator.Key)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer["password"] == "" || answer["password"] == nil {
		t.Fatalf("the simulator sends %v, %v, want an account with a password", answer, err)
	}
	checkResult, err := platform.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if results := fmt.Sprintf("%+v %+v", checkResult, account); strings.Contains(results, answer["password"].(string)) {
		t.Error("the result of Check or Account contains the password")
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[accountDoc]()) {
		if name := strings.ToLower(field.Tag.Get("json")); strings.Contains(name, "password") || field.Type.Kind() == reflect.Map {
			t.Errorf("the field %s can hold the password", field.Name)
		}
	}
}
