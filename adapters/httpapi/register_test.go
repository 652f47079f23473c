// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

// Every operation declares its bucket and whether it is a write. An operation that was not added by
// register declares neither.
func TestOperationsDeclareTheirTerms(t *testing.T) {
	api := newAPI(http.NewServeMux())
	operations(api, Options{})
	writes := []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	// The one write outside /v1 has no replay and takes no key.
	keyless := map[string]bool{"rotate-api-key": true}
	for _, item := range api.OpenAPI().Paths {
		for _, op := range operationsOf(item) {
			terms, ok := op.Metadata[termsKey].(terms)
			if !ok || !slices.Contains([]bucket{reads, expensive, providerHeavy, providerHeavyWrites}, terms.bucket) {
				t.Errorf("%s declares no bucket", op.OperationID)
			}
			if want := slices.Contains(writes, op.Method) && !keyless[op.OperationID]; terms.write != want {
				t.Errorf("%s: write is %v, want %v", op.OperationID, terms.write, want)
			}
			if len(op.Security) != 1 {
				t.Errorf("%s needs no key", op.OperationID)
			}
		}
	}
}

// Each operation counts in the documented bucket.
func TestBuckets(t *testing.T) {
	want := map[string]bucket{
		"get-dkim-status": expensive, "get-domain-dns-plan": expensive, "get-domain-dns-automation": expensive, "sync-tenant": providerHeavy, "add-domain": providerHeavy, "verify-domain": providerHeavy,
		"enable-dkim": providerHeavy, "provision-mailboxes": providerHeavy, "set-mailbox-limit": providerHeavy, "provision-domain-dns": providerHeavy, "retry-provisioning-job": providerHeavy,
		"create-integration": providerHeavyWrites, "test-integration": providerHeavyWrites, "delete-integration": providerHeavyWrites,
		"begin-microsoft-oauth": providerHeavyWrites, "get-microsoft-oauth-status": providerHeavy, "refresh-integration-mailboxes": providerHeavyWrites,
		"disconnect-mailbox": providerHeavyWrites,
	}
	api := newAPI(http.NewServeMux())
	operations(api, Options{})
	for _, item := range api.OpenAPI().Paths {
		for _, op := range operationsOf(item) {
			expected, listed := want[op.OperationID]
			if !listed {
				expected = reads
			}
			if got := termsOf(op).bucket; got != expected {
				t.Errorf("%s counts in %s, want %s", op.OperationID, got, expected)
			}
		}
	}
}

// Only sync-tenant has a longer time limit than the default.
func TestTimes(t *testing.T) {
	api := newAPI(http.NewServeMux())
	operations(api, Options{})
	for _, item := range api.OpenAPI().Paths {
		for _, op := range operationsOf(item) {
			want := 55 * time.Second
			if op.OperationID == "sync-tenant" {
				want = 110 * time.Second
			}
			if got := termsOf(op).timeout(); got != want {
				t.Errorf("%s gets %v, want %v", op.OperationID, got, want)
			}
		}
	}
}
