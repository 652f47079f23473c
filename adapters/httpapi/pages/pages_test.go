// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/httpapi/pages"
	"github.com/tenantry/tenantry/core/fault"
)

func renderPage(t *testing.T, handler http.HandlerFunc) (*httptest.ResponseRecorder, string) {
	t.Helper()
	w := httptest.NewRecorder()
	handler(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w, w.Body.String()
}

// externalLink matches a src or href attribute with a URL that names a host.
var externalLink = regexp.MustCompile(`(?i)(src|href)="(https?:)?//`)

func TestEveryErrorCodeHasAPage(t *testing.T) {
	_, index := renderPage(t, pages.Errors(map[fault.Kind]int{}))
	for _, code := range fault.All() {
		w, page := renderPage(t, func(w http.ResponseWriter, _ *http.Request) { pages.Error(w, code, 400, pages.Origin{}) })
		if !strings.Contains(page, "<h1>") || !strings.Contains(page, code.Name) || !strings.Contains(page, `<html lang="en">`) {
			t.Errorf("the page of %s has no heading, no code or no language: %s", code.Name, page)
		}
		if strings.Contains(page, "`") || externalLink.MatchString(page) {
			t.Errorf("the page of %s has a backtick or a link to a host", code.Name)
		}
		if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("the page of %s has the policy %q, want default-src 'none' without unsafe", code.Name, policy)
		}
		if !strings.Contains(index, `href="/docs/errors/`+code.Name+`"`) {
			t.Errorf("the index lacks %s", code.Name)
		}
	}
}

func TestGuidesAreListedAndLoadNothingFromOtherHosts(t *testing.T) {
	_, index := renderPage(t, pages.Guides)
	links := regexp.MustCompile(`href="/docs/guide/([a-z-]+)"`).FindAllStringSubmatch(index, -1)
	if len(links) < 6 {
		t.Fatalf("the index lists %d guides, want at least 6", len(links))
	}
	for _, link := range links {
		w, page := renderPage(t, func(w http.ResponseWriter, _ *http.Request) {
			if !pages.Guide(w, link[1]) {
				t.Errorf("there is no guide %s", link[1])
			}
		})
		if !strings.Contains(page, "<h1>") || strings.Contains(page, "`") || externalLink.MatchString(page) || w.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("the guide %s has no heading or no policy, or has a backtick or a link to a host: %s", link[1], page)
		}
	}
	if pages.Guide(httptest.NewRecorder(), "nonsense") {
		t.Error("an unknown guide is served")
	}
}

func TestAPIPageLoadsNothingFromOtherHosts(t *testing.T) {
	w, page := renderPage(t, pages.API)
	if externalLink.MatchString(page) || strings.Contains(page, "<style") || regexp.MustCompile(`<script>`).MatchString(page) {
		t.Errorf("the page has inline content or a link to a host: %s", page)
	}
	if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "connect-src 'self'") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q, want connect-src 'self' without unsafe", policy)
	}
	for _, link := range regexp.MustCompile(`/docs/assets/([a-z0-9.-]+)`).FindAllStringSubmatch(page, -1) {
		rec := httptest.NewRecorder()
		if !pages.Asset(rec, httptest.NewRequest(http.MethodGet, "/", nil), link[1]) || rec.Body.Len() == 0 {
			t.Errorf("the asset %s is missing or empty", link[1])
		}
	}
}

func TestAssetsMatchThePublishedHashes(t *testing.T) {
	sums, err := os.Open("assets/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sums.Close() }()
	files := 0
	for lines := bufio.NewScanner(sums); lines.Scan(); files++ {
		want, name, _ := strings.Cut(lines.Text(), "  ")
		for _, accepts := range []string{"", "gzip", "gzip;q=0"} {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Accept-Encoding", accepts)
			w := httptest.NewRecorder()
			if !pages.Asset(w, r, name) {
				t.Fatalf("there is no asset %s", name)
			}
			var content io.Reader = w.Body
			if encoded := w.Header().Get("Content-Encoding") == "gzip"; encoded && accepts != "gzip" {
				t.Errorf("%s is compressed for a client that accepts %q", name, accepts)
			} else if encoded {
				if content, err = gzip.NewReader(w.Body); err != nil {
					t.Fatal(err)
				}
			}
			hash := sha256.New()
			if _, err := io.Copy(hash, content); err != nil {
				t.Fatal(err)
			}
			if got := hex.EncodeToString(hash.Sum(nil)); got != want {
				t.Errorf("%s has the hash %s, want %s", name, got, want)
			}
		}
	}
	if files != 2 {
		t.Errorf("SHA256SUMS lists %d files, want 2", files)
	}
}
