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

// renderPage returns the answer of a page handler, and its body.
func renderPage(t *testing.T, handler http.HandlerFunc) (*httptest.ResponseRecorder, string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	handler(recorder, httptest.NewRequest(http.MethodGet, "/", nil))
	return recorder, recorder.Body.String()
}

// externalLink matches a src or href attribute with a URL that names a host.
var externalLink = regexp.MustCompile(`(?i)(src|href)="(https?:)?//`)

func TestEveryErrorCodeHasAPage(t *testing.T) {
	_, index := renderPage(t, pages.Errors(map[fault.Kind]int{}))
	for _, code := range fault.All() {
		answer, page := renderPage(t, func(w http.ResponseWriter, _ *http.Request) { pages.Error(w, code, 400, pages.Origin{}) })
		if !strings.Contains(page, "<h1>") || !strings.Contains(page, code.Name) || !strings.Contains(page, `<html lang="en">`) {
			t.Errorf("the page of %s has no heading, no code or no language: %s", code.Name, page)
		}
		if strings.Contains(page, "`") || externalLink.MatchString(page) {
			t.Errorf("the page of %s has a backtick or a link to a host", code.Name)
		}
		if policy := answer.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("the page of %s has the policy %q, want default-src 'none' without unsafe", code.Name, policy)
		}
		if !strings.Contains(index, `href="/docs/errors/`+code.Name+`"`) {
			t.Errorf("the index has no link to the page of %s", code.Name)
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
		answer, page := renderPage(t, func(w http.ResponseWriter, _ *http.Request) {
			if !pages.Guide(w, link[1]) {
				t.Errorf("the index lists the guide %s, which does not exist", link[1])
			}
		})
		if !strings.Contains(page, "<h1>") || strings.Contains(page, "`") || externalLink.MatchString(page) || answer.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("the guide %s has no heading or no policy, or has a backtick or a link to a host: %s", link[1], page)
		}
	}
	if pages.Guide(httptest.NewRecorder(), "nonsense") {
		t.Error("an unknown guide is served")
	}
}

func TestAPIPageLoadsNothingFromOtherHosts(t *testing.T) {
	answer, page := renderPage(t, pages.API)
	if externalLink.MatchString(page) || strings.Contains(page, "<style") || strings.Contains(page, "<script>") {
		t.Errorf("the page has inline content or a link to a host: %s", page)
	}
	if policy := answer.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "connect-src 'self'") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q, want connect-src 'self' without unsafe", policy)
	}
	links := regexp.MustCompile(`/docs/assets/([a-z0-9.-]+)`).FindAllStringSubmatch(page, -1)
	if len(links) != 4 {
		t.Errorf("the page has the assets %v, want 2 scripts and 2 style sheets", links)
	}
	for _, link := range links {
		recorder := httptest.NewRecorder()
		if !pages.Asset(recorder, httptest.NewRequest(http.MethodGet, "/", nil), link[1]) || recorder.Body.Len() == 0 {
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
		for _, acceptEncoding := range []string{"", "gzip", "gzip;q=0"} {
			request := httptest.NewRequest(http.MethodGet, "/", nil)
			request.Header.Set("Accept-Encoding", acceptEncoding)
			recorder := httptest.NewRecorder()
			if !pages.Asset(recorder, request, name) {
				t.Fatalf("SHA256SUMS lists the asset %s, which does not exist", name)
			}
			var content io.Reader = recorder.Body
			isCompressed := recorder.Header().Get("Content-Encoding") == "gzip"
			if wantCompressed := acceptEncoding == "gzip"; isCompressed != wantCompressed {
				t.Errorf("%s for Accept-Encoding %q: compressed is %v, want %v", name, acceptEncoding, isCompressed, wantCompressed)
			}
			if isCompressed {
				if content, err = gzip.NewReader(recorder.Body); err != nil {
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
