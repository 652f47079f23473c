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

// openRegistration goes on with the registration in the data folder, or makes
// one.
func openRegistration(dataDir string) (*simulate.File[registration], error) {
	f, err := simulate.OpenFile(filepath.Join(dataDir, "app.json"), registration{})
	if err != nil {
		return nil, err
	}
	fresh := false
	f.View(func(r *registration) { fresh = r.ClientID == "" })
	if !fresh {
		return f, nil
	}
	made, err := newRegistration()
	if err != nil {
		return nil, err
	}
	return f, f.Do(func(r *registration) { *r = made })
}

func newRegistration() (registration, error) {
	key, err := newSigningKey()
	if err != nil {
		return registration{}, err
	}
	seed := randomText(16)
	r := registration{
		Seed:          seed,
		ClientID:      guid(seed, "client"),
		Secret:        randomText(30),
		ExpiredSecret: randomText(30),
		Permissions:   usualPermissions(),
		Keys:          []signingKey{key},
	}
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]"} {
		for _, page := range []string{"callback", "signin"} {
			r.RedirectURIs = append(r.RedirectURIs, "http://"+host+"/connect/microsoft365/"+page)
		}
	}
	return r, nil
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
