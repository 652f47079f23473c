// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net"
	"net/url"
	"path/filepath"
	"slices"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// registration is our application as it is registered with Microsoft: the
// part that is the same in every tenant.
type registration struct {
	// Seed makes the ids of this data folder differ from another's, so that
	// two sandboxes never name the same tenant.
	Seed     string `json:"seed"`
	ClientID string `json:"client_id"`
	Secret   string `json:"secret"`
	// ExpiredSecret is an older secret of the registration.
	ExpiredSecret string       `json:"expired_secret"`
	Certificates  []string     `json:"certificates"` // PEM
	RedirectURIs  []string     `json:"redirect_uris"`
	Permissions   []string     `json:"permissions"` // app roles put up for consent
	WidsInIDToken bool         `json:"wids_in_id_token"`
	Keys          []signingKey `json:"keys"` // the last one signs
}

func openRegistration(dataDir string) (*simulate.File[registration], error) {
	seed := randomText(16)
	key, err := newSigningKey()
	if err != nil {
		return nil, err
	}
	return simulate.OpenFile(filepath.Join(dataDir, "app.json"), registration{
		Seed:          seed,
		ClientID:      guid(seed, "client"),
		Secret:        randomText(30),
		ExpiredSecret: randomText(30),
		RedirectURIs: []string{
			"http://127.0.0.1/connect/microsoft365/callback", "http://127.0.0.1/connect/microsoft365/signin",
			"http://localhost/connect/microsoft365/callback", "http://localhost/connect/microsoft365/signin",
			"http://[::1]/connect/microsoft365/callback", "http://[::1]/connect/microsoft365/signin",
		},
		Permissions: usualPermissions(),
		Keys:        []signingKey{key},
	})
}

// registration returns the registration as it is now.
func (s *simulator) registration() registration {
	var now registration
	s.app.View(func(r *registration) {
		now = *r
		now.Keys = slices.Clone(r.Keys)
	})
	return now
}

// redirects reports whether a redirect URI is registered: exactly, but for the
// port of a loopback address, which the platform ignores.
func (r registration) redirects(uri string) bool {
	want, err := url.Parse(uri)
	if err != nil || want.Fragment != "" {
		return false
	}
	ip := net.ParseIP(want.Hostname())
	if want.Scheme == "http" && (want.Hostname() == "localhost" || ip != nil && ip.IsLoopback()) {
		want.Host = want.Hostname()
		if ip != nil && ip.To4() == nil {
			want.Host = "[" + want.Host + "]"
		}
	}
	return slices.Contains(r.RedirectURIs, want.String())
}
