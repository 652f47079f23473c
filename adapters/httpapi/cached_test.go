// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/httpapi/refusal"
	"github.com/tenantry/tenantry/core/fault"
)

// getWithHeaders sends a GET request with these headers to a handler and returns the answer.
func getWithHeaders(handler http.Handler, path string, headers map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, r)
	return recorder
}

// TestDocumentIsCompressedAndCacheable checks the encodings of the OpenAPI document, and that a
// client that already has the document does not get it again.
func TestDocumentIsCompressedAndCacheable(t *testing.T) {
	handler := newTestEnv(t).handler(t)
	for _, path := range []string{"/openapi.json", "/openapi.yaml"} {
		tags := map[string]string{}
		uncompressed := getWithHeaders(handler, path, nil)
		for encoding, want := range map[string]string{"": "", "gzip": "gzip", "br, gzip;q=0.5": "gzip", "gzip;q=0": "", "*": ""} {
			got := getWithHeaders(handler, path, map[string]string{"Accept-Encoding": encoding})
			if got.Code != 200 || got.Header().Get("Content-Encoding") != want || got.Header().Get("Vary") != "Accept-Encoding" || !strings.HasPrefix(got.Header().Get("Cache-Control"), "public") {
				t.Fatalf("%s with Accept-Encoding %q is answered %d %v, want 200 with the encoding %q", path, encoding, got.Code, got.Header(), want)
			}
			tags[want] = got.Header().Get("ETag")
			if want == "gzip" {
				if got.Body.Len()*4 > uncompressed.Body.Len() {
					t.Errorf("%s has %d bytes compressed, want at most a quarter of the %d plain bytes", path, got.Body.Len(), uncompressed.Body.Len())
				}
				decompressor, err := gzip.NewReader(got.Body)
				must(t, err)
				if content, err := io.ReadAll(decompressor); err != nil || string(content) != uncompressed.Body.String() {
					t.Errorf("%s differs from the plain document after decompression (%v)", path, err)
				}
			}
		}
		if tags[""] == tags["gzip"] || tags[""] == "" {
			t.Errorf("%s has the tags %v, want a different one for each encoding", path, tags)
		}
		for ifNoneMatch, wantStatus := range map[string]int{tags[""]: 304, "W/" + tags[""]: 304, `"x", ` + tags[""]: 304, "*": 304, `"x"`: 200, tags["gzip"]: 200} {
			got := getWithHeaders(handler, path, map[string]string{"If-None-Match": ifNoneMatch})
			if got.Code != wantStatus || (wantStatus == 304) != (got.Body.Len() == 0) || got.Header().Get("ETag") != tags[""] {
				t.Errorf("%s with If-None-Match %s is answered %d with %d bytes, want %d (without a body if it is 304)", path, ifNoneMatch, got.Code, got.Body.Len(), wantStatus)
			}
		}
	}
}

// TestPagesAreCacheable checks that a client may keep pages and files for some time. The answer to
// a request for an unknown page or file must not have a max-age.
func TestPagesAreCacheable(t *testing.T) {
	handler := newTestEnv(t).handler(t)
	browser := map[string]string{"Accept": "text/html"}
	for _, path := range []string{
		"/", "/docs", "/docs/guide", "/docs/guide/retries", "/docs/errors", "/docs/errors/invalid_request",
		"/docs/assets/text.css", "/docs/assets/swagger-ui-bundle.js", "/openapi.json",
	} {
		if got := getWithHeaders(handler, path, browser); got.Code != 200 || !strings.HasPrefix(got.Header().Get("Cache-Control"), "public, max-age=") {
			t.Errorf("%s is answered %d %v, want 200 and public, max-age", path, got.Code, got.Header())
		}
	}
	for _, path := range []string{"/docs/guide/unknown", "/docs/errors/unknown", "/docs/assets/unknown"} {
		if got := getWithHeaders(handler, path, browser); got.Code != 404 || strings.Contains(got.Header().Get("Cache-Control"), "max-age") {
			t.Errorf("%s is answered %d %v, want 404 without max-age", path, got.Code, got.Header())
		}
	}
}

// TestRootShowsAPageToBrowsersOnly checks that a client of the API still gets a 404 problem at the
// root.
func TestRootShowsAPageToBrowsersOnly(t *testing.T) {
	handler := newTestEnv(t).handler(t)
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	if got := getWithHeaders(handler, "/", map[string]string{"Accept": browser}); got.Code != 200 || !strings.Contains(got.Body.String(), `href="/docs"`) {
		t.Errorf("a browser is answered %d %s, want 200 with a link to /docs", got.Code, got.Body.String())
	}
	for _, accept := range []string{"", "*/*", "application/json", "text/html;q=0"} {
		got := getWithHeaders(handler, "/", map[string]string{"Accept": accept})
		if got.Code != 404 || got.Header().Get("Content-Type") != "application/problem+json" || got.Header().Get("Vary") != "Accept" {
			t.Errorf("a client with %q is answered %d %v, want a 404 problem that varies by Accept", accept, got.Code, got.Header())
		}
	}
}

// TestIntroductionIsShort checks that the introduction before the operations on the API page is
// short, and that each page to which it links exists.
func TestIntroductionIsShort(t *testing.T) {
	handler := newTestEnv(t).handler(t)
	var document struct {
		Info struct{ Description string }
	}
	must(t, json.Unmarshal(getWithHeaders(handler, "/openapi.json", nil).Body.Bytes(), &document))
	text := document.Info.Description
	if len(text) > 1500 {
		t.Errorf("the introduction has %d bytes, want at most 1500; move details to a guide", len(text))
	}
	links := 0
	for _, afterLink := range strings.Split(text, "](")[1:] {
		path, _, _ := strings.Cut(afterLink, ")")
		if page := getWithHeaders(handler, path, nil); page.Code != 200 {
			t.Errorf("the linked page %s is answered %d, want 200", path, page.Code)
		}
		links++
	}
	if links < 5 {
		t.Errorf("the introduction links to %d pages, want at least 5", links)
	}
}

// TestGuidesAgreeWithTheDocument checks that the guide about requests names each 2xx status in the
// OpenAPI document. It also checks that no page of an error with the status 429 or 5xx asks for a
// new Idempotency-Key, because the request can be repeated with the same key.
func TestGuidesAgreeWithTheDocument(t *testing.T) {
	handler := newTestEnv(t).handler(t)
	var document struct {
		Paths map[string]map[string]struct{ Responses map[string]any }
	}
	must(t, json.Unmarshal(getWithHeaders(handler, "/openapi.json", nil).Body.Bytes(), &document))
	guide := getWithHeaders(handler, "/docs/guide/requests", nil).Body.String()
	_, success, _ := strings.Cut(guide, "Success is ")
	success, _, _ = strings.Cut(success, "</li>")
	successes := 0
	for path, operations := range document.Paths {
		for method, operation := range operations {
			for status := range operation.Responses {
				if !strings.HasPrefix(status, "2") {
					continue
				}
				if successes++; !strings.Contains(success, status) {
					t.Errorf("%s %s is answered %s, but the guide says that success is %q", method, path, status, success)
				}
			}
		}
	}
	if successes == 0 {
		t.Error("the document has no 2xx status")
	}
	for _, code := range fault.All() {
		if status := refusal.StatusOf[code.Kind]; (status == 429 || status >= 500) && strings.Contains(code.About, "new Idempotency-Key") {
			t.Errorf("%s, which is never stored, asks for a new Idempotency-Key: %s", code.Name, code.About)
		}
	}
}
