// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/httpapi/pages"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/webhook"
)

// TestTheGuideShowsTheExamples checks that the guide about webhooks contains the programs that
// TestExamplesVerifySignatures runs.
func TestTheGuideShowsTheExamples(t *testing.T) {
	_, page := renderPage(t, func(w http.ResponseWriter, _ *http.Request) { pages.Guide(w, "webhooks") })
	files, err := filepath.Glob("examples/verify/*")
	if err != nil || len(files) != 4 {
		t.Fatalf("the examples are %v, want 4 files (%v)", files, err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(html.UnescapeString(page), strings.TrimSpace(string(source))) {
			t.Errorf("the guide does not show %s", file)
		}
	}
	if rec := httptest.NewRecorder(); !pages.Guide(rec, "webhooks") || strings.Contains(rec.Body.String(), "ZgotmplZ") {
		t.Error("the guide is missing, or its template refuses a value")
	}
}

// TestExamplesVerifySignatures runs the programs of the guide on messages of the service. `make
// test-programs` checks and compiles the TypeScript program.
func TestExamplesVerifySignatures(t *testing.T) {
	program := filepath.Join(t.TempDir(), "verify")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./examples/verify").CombinedOutput(); err != nil {
		t.Fatalf("the example in Go was not built: %v\n%s", err, output)
	}
	random, err := os.Open("/dev/urandom")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = random.Close() }()
	newSecret := func() secret.Text {
		text, err := webhook.NewSecret(random)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	ownSecret, otherSecret := newSecret(), newSecret()
	message := func(at time.Time, secrets ...secret.Text) webhook.Message {
		m, err := webhook.Message{ID: "019a52d9-7e2f-7a44-9c3b-6d17e20fa00c", Timestamp: at, Body: []byte("{\"type\":\"domain.added\",\"data\":{\"text\":\"\u00e4 \\u0000 %s\"}}")}.Sign(secrets...)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	now := time.Now()
	changedMessage := message(now, ownSecret)
	changedMessage.Body = append(changedMessage.Body, '\n')
	renamedMessage := message(now, ownSecret)
	renamedMessage.ID = "019a52d9-7e2f-7a44-9c3b-6d17e20fa00d"
	unsignedMessage := message(now, ownSecret)
	unsignedMessage.Signature = ""
	for _, program := range [][]string{{program}, {"node", testserver.Program(t, "clients/verify.js")}, {"python3", "examples/verify/verify.py"}, {"sh", "examples/verify/verify.sh"}} {
		for _, tc := range []struct {
			name string
			m    webhook.Message
			want bool
		}{
			{"signed", message(now, ownSecret), true},
			{"signed with two secrets", message(now, otherSecret, ownSecret), true},
			{"a different secret", message(now, otherSecret), false},
			{"no signature", unsignedMessage, false},
			{"a different body", changedMessage, false},
			{"a different id", renamedMessage, false},
			{"an hour old", message(now.Add(-time.Hour), ownSecret), false},
			{"an hour in the future", message(now.Add(time.Hour), ownSecret), false},
		} {
			args := append(program[1:len(program):len(program)], ownSecret.Reveal(), tc.m.ID, strconv.FormatInt(tc.m.Timestamp.Unix(), 10), tc.m.Signature)
			cmd := exec.CommandContext(t.Context(), program[0], args...)
			cmd.Stdin = strings.NewReader(string(tc.m.Body))
			if output, err := cmd.CombinedOutput(); (err == nil) != tc.want {
				t.Errorf("%s, %s: got %v, want success: %v\n%s", program, tc.name, err, tc.want, output)
			}
		}
	}
}
