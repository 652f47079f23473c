// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// vendorWord matches the name of a vendor, or of a product or host of a vendor.
var vendorWord = regexp.MustCompile(`(?i)microsoft|outlook|office ?365|\bentra\b|azure|google\.com|\bgmail|route ?53|` +
	`cloudflare|powerdns|instantly|plusvibe|smartlead|salesblink|emailbison`)

// vendorNeutralFolders have code and pages that are the same for every vendor. Their files name no
// vendor, except tests, testdata, the files in exemptFolders and the files of allowedVendors.
var vendorNeutralFolders = []string{"core", "ports", "app", "adapters/breaker", "adapters/console",
	"adapters/fake", "adapters/httpapi", "adapters/pluginhost", "adapters/sandbox"}

// exemptFolders are folders inside vendorNeutralFolders whose files may name vendors: the
// end-to-end tests and third-party code.
var exemptFolders = []string{"app/e2e", "adapters/httpapi/pages/assets"}

// allowedVendors lists the vendors that each file may name, in lower case. Decision 0020 says why.
var allowedVendors = map[string][]string{
	// published names and codes, and texts about these names
	"core/fault/codes.go":                                           {"emailbison", "plusvibe", "salesblink"},
	"core/integration/integration.go":                               {"microsoft"},
	"adapters/httpapi/pages/templates/guide-sending-platforms.html": {"emailbison", "instantly", "microsoft", "plusvibe", "salesblink", "smartlead"},
	// examples of a provider's id
	"app/operator/dnsconnection_add.go": {"cloudflare", "powerdns"},
	"app/settings/load.go":              {"microsoft"},
	"app/command/reference.go":          {"microsoft"},
	// the default of mail_platform, which is the bundled plugin
	"app/settings/settings.go": {"microsoft"},
	// the sending platform of the demo
	"app/demo/sending.go": {"instantly", "microsoft"},
	// records of the contract
	"ports/contract/dnsreader.go": {"outlook"},
	// published paths, members and codes, and the examples of the API document
	"adapters/httpapi/integrations_mailboxes.go": {"microsoft"},
	"adapters/httpapi/integrations.go":           {"emailbison", "microsoft", "plusvibe", "salesblink"},
	"adapters/httpapi/examples.go":               {"cloudflare", "emailbison", "google.com", "instantly", "microsoft", "outlook", "plusvibe", "salesblink"},
	// the seeded zones, which the contract of the sandbox names, and their records
	"adapters/sandbox/zones/providers.go":  {"cloudflare"},
	"adapters/sandbox/zones/messyzones.go": {"google.com"},
	// the platform that the fake imitates
	"adapters/fake/fake.go":            {"microsoft", "outlook"},
	"adapters/fake/directory.go":       {"microsoft", "outlook"},
	"adapters/fake/mailserver.go":      {"microsoft"},
	"adapters/fake/sendingplatform.go": {"microsoft"},
}

// TestVendorsAreNamedWhereTheyMay checks that each file in vendorNeutralFolders names exactly the
// vendors that allowedVendors lists for the file.
func TestVendorsAreNamedWhereTheyMay(t *testing.T) {
	found := map[string][]string{}
	for _, folder := range vendorNeutralFolders {
		err := filepath.WalkDir(filepath.Join("..", folder), func(path string, entry fs.DirEntry, err error) error {
			name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "testdata" || slices.Contains(exemptFolders, name)):
				return fs.SkipDir
			case entry.IsDir() || strings.HasSuffix(name, "_test.go"):
				return nil
			}
			text, err := os.ReadFile(path)
			if vendors := vendorsIn(string(text)); len(vendors) > 0 {
				found[name] = vendors
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if got, allowed := found[name], allowedVendors[name]; !slices.Equal(got, allowed) {
			t.Errorf("%s names %v, want %v: let the plugin describe its vendor (docs/decisions/0020-vendors-names.md)", name, got, allowed)
		}
	}
	for name := range allowedVendors {
		if found[name] == nil {
			t.Errorf("%s names no vendor any more; remove the file from allowedVendors", name)
		}
	}
}

// TestVendorsAreFound checks that vendorsIn finds a vendor inside a longer word, and in upper or
// lower case. It must not report words that only resemble the name of a vendor.
func TestVendorsAreFound(t *testing.T) {
	if got := vendorsIn("ann.onMICROSOFT.com, CloudFlare; missingMailboxes entrance"); !slices.Equal(got, []string{"cloudflare", "microsoft"}) {
		t.Errorf("got %v, want cloudflare and microsoft", got)
	}
}

// vendorsIn returns the vendors that a text names, sorted and in lower case.
func vendorsIn(text string) []string {
	vendors := map[string]bool{}
	for _, word := range vendorWord.FindAllString(text, -1) {
		vendors[strings.ToLower(word)] = true
	}
	return slices.Sorted(maps.Keys(vendors))
}
