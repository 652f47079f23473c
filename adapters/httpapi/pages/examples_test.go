// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"crypto/rand"
	"html"
	"net/http"
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
	_, page := renderPage(t, func(w http.ResponseWriter, _ *http.Request) {
		if !pages.Guide(w, "webhooks") {
			t.Error("the guide webhooks does not exist")
		}
	})
	files, err := filepath.Glob("examples/verify/*")
	if err != nil || len(files) != 4 { // in Go, Python, shell and TypeScript
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
	if strings.Contains(page, "ZgotmplZ") { // html/template writes it instead of an unsafe value
		t.Error("the guide contains ZgotmplZ, want no refused values")
	}
}

// TestExamplesVerifySignatures runs the programs of the guide on messages that are signed as the
// service signs them. `make test-programs` checks and compiles the TypeScript program.
func TestExamplesVerifySignatures(t *testing.T) {
	goProgram := filepath.Join(t.TempDir(), "verify")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", goProgram, "./examples/verify").CombinedOutput(); err != nil {
		t.Fatalf("the example in Go was not built: %v\n%s", err, output)
	}
	newSecret := func() secret.Text {
		text, err := webhook.NewSecret(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	ownSecret, otherSecret := newSecret(), newSecret() // the programs verify with ownSecret
	newMessage := func(at time.Time, secrets ...secret.Text) webhook.Message {
		signed, err := webhook.Message{ID: "019a52d9-7e2f-7a44-9c3b-6d17e20fa00c", Timestamp: at, Body: []byte("{\"type\":\"domain.added\",\"data\":{\"text\":\"\u00e4 \\u0000 %s\"}}")}.Sign(secrets...)
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	for _, command := range [][]string{{goProgram}, {"node", testserver.Program(t, "clients/verify.js")}, {"python3", "examples/verify/verify.py"}, {"sh", "examples/verify/verify.sh"}} {
		now := time.Now() // for each program, because the programs refuse messages older than 5 minutes
		changedMessage := newMessage(now, ownSecret)
		changedMessage.Body = append(changedMessage.Body, '\n')
		renamedMessage := newMessage(now, ownSecret)
		renamedMessage.ID = "019a52d9-7e2f-7a44-9c3b-6d17e20fa00d"
		unsignedMessage := newMessage(now, ownSecret)
		unsignedMessage.Signature = ""
		for _, tc := range []struct {
			name      string
			message   webhook.Message
			wantValid bool
		}{
			{"signed", newMessage(now, ownSecret), true},
			{"signed with two secrets", newMessage(now, otherSecret, ownSecret), true},
			{"a different secret", newMessage(now, otherSecret), false},
			{"no signature", unsignedMessage, false},
			{"a different body", changedMessage, false},
			{"a different id", renamedMessage, false},
			{"an hour old", newMessage(now.Add(-time.Hour), ownSecret), false},
			{"an hour in the future", newMessage(now.Add(time.Hour), ownSecret), false},
		} {
			args := append(command[1:len(command):len(command)], ownSecret.Reveal(), tc.message.ID, strconv.FormatInt(tc.message.Timestamp.Unix(), 10), tc.message.Signature)
			cmd := exec.CommandContext(t.Context(), command[0], args...)
			cmd.Stdin = strings.NewReader(string(tc.message.Body))
			if output, err := cmd.CombinedOutput(); (err == nil) != tc.wantValid {
				t.Errorf("%s, %s: got %v, want success: %v\n%s", command, tc.name, err, tc.wantValid, output)
			}
		}
	}
}
