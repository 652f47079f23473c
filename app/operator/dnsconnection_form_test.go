// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/plugins/wire"
)

// formWithTwoSecrets is the form of a provider with two secrets. No bundled DNS provider has more
// than one secret.
var formWithTwoSecrets = credentialForm{wire.Description{Name: "twofold", Fields: []wire.Field{
	{Name: "user", Account: true, Required: true, Help: "who"},
	{Name: "region", Account: true, Required: true, Default: "eu", Help: "where"},
	{Name: "note", Account: true, Help: "why"},
	{Name: "key", Account: true, Secret: true, Required: true, Help: "first secret"},
	{Name: "salt", Account: true, Secret: true, Help: "second secret"},
	{Name: "proxy", Secret: true}, {Name: "api_url"},
}}}

func TestFormReadsSeveralSecrets(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, content string
		want          map[string]string
		wantError     string
	}{
		{"the required and the optional secret", `{"key": " k1\n", "salt": "s1"}`, map[string]string{"key": "k1", "salt": "s1"}, ""},
		{"only the required secret", `{"key": "k1"}`, map[string]string{"key": "k1"}, ""},
		{"no required secret", `{"salt": "s3cr3t"}`, nil, "key is missing"},
		{"an empty required secret", `{"key": " ", "salt": "s3cr3t"}`, nil, "key is missing"},
		{"a secret that the operator sets", `{"key": "k1", "proxy": "s3cr3t"}`, nil, "are not secrets"},
		{"a text without JSON", `s3cr3t`, nil, "JSON object"},
		{"a number as a secret", `{"key": 53123123}`, nil, "JSON object"},
		{"a text that is not UTF-8", "s3cr3t\xff", nil, "not valid text"},
		{"an empty file", "\n", nil, "empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := &cobra.Command{}
			cmd.SetContext(t.Context())
			cmd.SetIn(strings.NewReader(tc.content))
			got, err := formWithTwoSecrets.secrets(cmd, "-")
			message := ""
			if err != nil {
				message = err.Error()
			}
			if (err == nil) != (tc.wantError == "") || !strings.Contains(message, tc.wantError) || strings.Contains(message, "s3cr3t") {
				t.Fatalf("got %v, %q, want the error %q without the secret", got, message, tc.wantError)
			}
			revealed := map[string]string{}
			for name, text := range got {
				revealed[name] = text.Reveal()
			}
			if err == nil && !cmp.Equal(revealed, tc.want) {
				t.Error(cmp.Diff(tc.want, revealed))
			}
		})
	}
}

func TestFormReadsTheWholeTextAsTheOnlySecret(t *testing.T) {
	t.Parallel()
	form := credentialForm{wire.Description{Name: "plain", Fields: formWithTwoSecrets.Fields[3:4]}}
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.SetIn(strings.NewReader("{\"key\": 1} and more\r\n"))
	if got, err := form.secrets(cmd, "-"); err != nil || len(got) != 1 || got["key"].Reveal() != `{"key": 1} and more` {
		t.Errorf("got %q, %v, want the whole text as the secret", got["key"].Reveal(), err)
	}
	withoutSecrets := credentialForm{wire.Description{Name: "open"}}
	if got, err := withoutSecrets.secrets(cmd, ""); err != nil || len(got) != 0 {
		t.Errorf("a provider without secrets: got %v, %v, want no secrets", got, err)
	}
	if _, err := withoutSecrets.secrets(cmd, "-"); err == nil {
		t.Error("a secret for a provider without secrets: got no error")
	}
}

func TestFormReadsSettings(t *testing.T) {
	t.Parallel()
	got, err := formWithTwoSecrets.settings([]string{"user=ann", "note= a=b "})
	if diff := cmp.Diff(map[string]string{"user": "ann", "note": "a=b"}, got); err != nil || diff != "" {
		t.Errorf("got the error %v, and the difference\n%s", err, diff)
	}
	for assignment, wantError := range map[string]string{
		"note=x": "needs --set user", "user": "NAME=VALUE", "user=": "no value", "user=\xff": "not valid text", "key=x": "is a secret",
		"proxy=x": "providers.twofold.proxy_file", "api_url=x": "providers.twofold.api_url", "what=x": `no field "what"`, "a\x1b=x": "no field",
	} {
		if _, err := formWithTwoSecrets.settings([]string{assignment}); err == nil || !strings.Contains(err.Error(), wantError) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: got %v, want an error with %q and without the escape character", assignment, err, wantError)
		}
	}
	want := strings.TrimPrefix(`
  --set user=…                   who
  --set region=…                 where; eu unless set
  --set note=…                   why (optional)
  "key" in the credential file   first secret
  "salt" in the credential file  second secret (optional)`, "\n")
	if diff := cmp.Diff(want, formWithTwoSecrets.help()); diff != "" {
		t.Error(diff)
	}
}
