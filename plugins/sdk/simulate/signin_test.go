// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

func TestSignInPage(t *testing.T) {
	out := httptest.NewRecorder()
	simulate.SignInPage{Platform: "Example", Action: "/authorize?state=a&b=c", Username: `"><script>x</script>`}.Show(out)
	for _, has := range []string{`name="username"`, `name="decision" value="accept"`, `name="decision" value="deny"`, `formnovalidate`, `action="/authorize?state=a&amp;b=c"`, `method="post"`} {
		if !strings.Contains(out.Body.String(), has) {
			t.Errorf("the page has no %s", has)
		}
	}
	if strings.Contains(out.Body.String(), "<script") {
		t.Error("the page runs what the link says")
	}
	out = httptest.NewRecorder()
	simulate.SignInPage{Platform: "Example", Status: http.StatusGone, Problem: "too late"}.Show(out)
	if out.Code != http.StatusGone || strings.Contains(out.Body.String(), "<form") || !strings.Contains(out.Body.String(), "too late") {
		t.Errorf("%d %s", out.Code, out.Body)
	}
}
