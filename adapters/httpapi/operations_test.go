// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
)

func registeredOperations() (operations []*huma.Operation) {
	api := newAPI(http.NewServeMux())
	registerOperations(api, Options{})
	for _, item := range api.OpenAPI().Paths {
		operations = append(operations, guard.OperationsOf(item)...)
	}
	return operations
}

// TestOperationsDeclareTheirRules checks that each operation declares its bucket, its scope and
// whether it is a write. It also checks that each operation documents that it needs an API key.
func TestOperationsDeclareTheirRules(t *testing.T) {
	writeMethods := []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	// The only write outside /v1 takes no Idempotency-Key and has no replay.
	withoutIdempotencyKey := map[string]bool{"rotate-api-key": true}
	for _, op := range registeredOperations() {
		rules := guard.RulesOf(op)
		if !slices.Contains(guard.Buckets(), rules.Bucket) {
			t.Errorf("%s declares no bucket", op.OperationID)
		}
		if needsNoScope := op.OperationID == "get-me"; needsNoScope != (rules.Scope == access.NoScope) || !needsNoScope && !slices.Contains(access.OperationScopes(), rules.Scope) {
			t.Errorf("%s declares the scope %q, want an operation scope, or none for get-me", op.OperationID, rules.Scope)
		}
		if wantReadScope := op.Method == http.MethodGet && op.OperationID != "get-connect-url" && op.OperationID != "get-connect-session"; strings.HasSuffix(string(rules.Scope), ":write") == wantReadScope {
			t.Errorf("%s %s needs the scope %s, want a scope that ends with :write: %v", op.Method, op.OperationID, rules.Scope, !wantReadScope)
		}
		if want := slices.Contains(writeMethods, op.Method) && !withoutIdempotencyKey[op.OperationID]; rules.Write != want {
			t.Errorf("%s: write is %v, want %v", op.OperationID, rules.Write, want)
		}
		if len(op.Security) != 1 {
			t.Errorf("%s does not document that it needs an API key", op.OperationID)
		}
	}
}

// TestOperationsDeclareTheDocumentedBucket checks that each operation declares the bucket that the
// test lists for it. An operation that is not listed must declare guard.Reads.
func TestOperationsDeclareTheDocumentedBucket(t *testing.T) {
	wantBuckets := map[string]guard.Bucket{
		"get-dkim-status": guard.Expensive, "get-domain-dns-plan": guard.Expensive, "get-domain-dns-automation": guard.Expensive, "sync-tenant": guard.ProviderHeavy, "add-domain": guard.ProviderHeavy, "verify-domain": guard.ProviderHeavy,
		"enable-dkim": guard.ProviderHeavy, "provision-mailboxes": guard.ProviderHeavy, "set-mailbox-limit": guard.ProviderHeavy, "provision-domain-dns": guard.ProviderHeavy, "retry-provisioning-job": guard.ProviderHeavy,
		"create-integration": guard.ProviderHeavyWrites, "test-integration": guard.ProviderHeavyWrites, "delete-integration": guard.ProviderHeavyWrites,
		"begin-microsoft-oauth": guard.ProviderHeavyWrites, "get-microsoft-oauth-status": guard.ProviderHeavy, "refresh-integration-mailboxes": guard.ProviderHeavyWrites,
		"disconnect-mailbox": guard.ProviderHeavyWrites, "renew-connect-session": guard.Writes, "remove-domain": guard.ProviderHeavy, "end-mailbox-limit": guard.ProviderHeavy, "remove-mailbox": guard.ProviderHeavy,
		"create-key": guard.Writes, "rotate-key": guard.Writes, "revoke-key": guard.Writes,
		"create-webhook": guard.Writes, "update-webhook": guard.Writes, "delete-webhook": guard.Writes, "rotate-webhook-secret": guard.Writes,
		"test-webhook": guard.Writes, "redeliver-webhook-delivery": guard.Writes, "replay-webhook": guard.Writes,
	}
	for _, op := range registeredOperations() {
		want, listed := wantBuckets[op.OperationID]
		if !listed {
			want = guard.Reads
		}
		if got := guard.RulesOf(op).Bucket; got != want {
			t.Errorf("%s counts in %s, want %s", op.OperationID, got, want)
		}
	}
}

// TestOnlyListedOperationsMayTakeLonger checks that sync-tenant and export-audit-entries have a
// longer time limit, and that the other operations have the default of package guard.
func TestOnlyListedOperationsMayTakeLonger(t *testing.T) {
	for _, op := range registeredOperations() {
		want := map[string]time.Duration{"sync-tenant": 110 * time.Second, "export-audit-entries": 10 * time.Minute}[op.OperationID]
		if got := guard.RulesOf(op).TimeLimit; got != want {
			t.Errorf("%s has the time limit %v, want %v (0 is the default)", op.OperationID, got, want)
		}
	}
}

// TestErrorPagesExplainTheirCode checks that each code has an explanation, and a page with all
// sections.
func TestErrorPagesExplainTheirCode(t *testing.T) {
	api := New(Options{Guard: guard.Options{Log: slog.New(slog.DiscardHandler)}})
	page := func(code string) string {
		recorder := httptest.NewRecorder()
		api.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/docs/errors/"+code, nil))
		if recorder.Code != http.StatusOK {
			t.Fatalf("the page of %s is answered %d, want 200", code, recorder.Code)
		}
		return recorder.Body.String()
	}
	for _, faultCode := range fault.All() {
		text := page(faultCode.Name)
		if len(faultCode.About) < 40 || !strings.HasSuffix(faultCode.About, ".") {
			t.Errorf("the explanation of %s is %q, want at least 40 bytes and a period at the end", faultCode.Name, faultCode.About)
		}
		for _, phrase := range []string{"May I send the request again?</h2>\n<p>", "Operations that return it</h2>\n<", "In an answer"} {
			if !strings.Contains(text, phrase) {
				t.Errorf("the page of %s does not contain %q", faultCode.Name, phrase)
			}
		}
	}
	for code, want := range map[string][]string{
		"internal_error":       {"<p>Every operation.</p>", "Yes, with the same Idempotency-Key"},
		"provider_unavailable": {"<code>POST /v1/tenants/{tenant_id}/mailboxes</code>", "<code>Retry-After</code>"},
		"domain_unavailable":   {"<code>POST /v1/tenants/{tenant_id}/domains</code>"},
		"weak_password":        {"<ul>\n<li><code>POST /v1/tenants/{tenant_id}/mailboxes</code></li>\n</ul>", "new Idempotency-Key"},
		"consent_declined":     {"<p>No operation: "},
	} {
		for _, phrase := range want {
			if !strings.Contains(page(code), phrase) {
				t.Errorf("the page of %s does not say %q:\n%s", code, phrase, page(code))
			}
		}
	}
}

// TestDisplayNamesAreNormalized checks that a decomposed Unicode name is stored as the composed
// name.
func TestDisplayNamesAreNormalized(t *testing.T) {
	body := provisionMailboxes{Mailboxes: []wantedMailbox{{Name: "Zoe\u0308 A\u030angstro\u0308m"}}}
	if got := body.request().Mailboxes[0].DisplayName; got != "Zo\u00eb \u00c5ngstr\u00f6m" {
		t.Errorf("got %q, want the composed name", got)
	}
}
