// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const applicationName = "tenantry"

// registration is the application as it is registered with Microsoft, for all tenants.
type registration struct {
	// Seed is random in each data folder, so two sandboxes never have tenants with the same id.
	Seed     string `json:"seed"`
	ClientID string `json:"client_id"`
	Secret   string `json:"secret"`
	// ExpiredSecret is a secret that the login host refuses as expired.
	ExpiredSecret string       `json:"expired_secret"`
	Certificates  []string     `json:"certificates"` // PEM
	RedirectURIs  []string     `json:"redirect_uris"`
	Permissions   []string     `json:"permissions"` // the app roles that consent grants
	WidsInIDToken bool         `json:"wids_in_id_token"`
	Keys          []signingKey `json:"keys"` // the last key signs
}

// openRegistration returns the registration in the data folder, and creates a missing one. A test
// can store only the keys, because generating a key is slow.
func openRegistration(dataDir string) (*simulate.File[registration], error) {
	f, err := simulate.OpenFile(filepath.Join(dataDir, "app.json"), registration{})
	if err != nil {
		return nil, err
	}
	return f, f.Do(func(r *registration) {
		if r.ClientID == "" {
			keys := r.Keys
			*r = newRegistration()
			r.Keys = keys
		}
	})
}

func newRegistration() registration {
	seed := randomText(16)
	r := registration{
		Seed:          seed,
		ClientID:      guid(seed, "client"),
		Secret:        randomText(30),
		ExpiredSecret: randomText(30),
		Permissions:   defaultPermissions(),
	}
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]"} {
		for _, page := range []string{"callback", "signin"} {
			r.RedirectURIs = append(r.RedirectURIs, "http://"+host+"/connect/microsoft365/"+page)
		}
	}
	return r
}

// registration returns a copy of the current registration.
func (s *simulator) registration() registration {
	var current registration
	s.app.View(func(r *registration) {
		current = *r
		current.Keys = slices.Clone(r.Keys)
	})
	return current
}

// signingKeys returns the keys of the registration. It generates the first key when the key is
// first needed, because this takes longer than the rest of the simulator's start.
func (s *simulator) signingKeys() ([]signingKey, error) {
	s.firstKeyMu.Lock()
	defer s.firstKeyMu.Unlock()
	if keys := s.registration().Keys; len(keys) > 0 {
		return keys, nil
	}
	key, err := newSigningKey()
	if err != nil {
		return nil, err
	}
	return []signingKey{key}, s.app.Do(func(r *registration) { r.Keys = append(r.Keys, key) })
}

func (s *simulator) signer() (signingKey, error) {
	keys, err := s.signingKeys()
	if err != nil {
		return signingKey{}, err
	}
	return keys[len(keys)-1], nil
}

// allowsRedirect reports whether a redirect URI is registered and has no fragment. Like Microsoft,
// it ignores the ports of loopback URIs.
func (r registration) allowsRedirect(uri string) bool {
	requested, err := url.Parse(uri)
	if err != nil || requested.Fragment != "" {
		return false
	}
	return slices.ContainsFunc(r.RedirectURIs, func(registered string) bool {
		return withoutLoopbackPort(registered) == withoutLoopbackPort(uri)
	})
}

// withoutLoopbackPort removes the port of an http URI whose host is localhost or a loopback
// address. It returns every other URI unchanged.
func withoutLoopbackPort(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "http" {
		return uri
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && !ip.IsLoopback() {
		return uri
	}
	u.Host = strings.TrimSuffix(u.Host, ":"+u.Port())
	return u.String()
}

// controlApp answers POST /_control/app.
func (s *simulator) controlApp(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Certificate   *string   `json:"certificate"` // PEM, added to the registered certificates
		RedirectURIs  *[]string `json:"redirect_uris"`
		Permissions   *[]string `json:"permissions"`
		WidsInIDToken *bool     `json:"wids_in_id_token"`
		RotateKeys    bool      `json:"rotate_keys"`
		ExpireSecret  bool      `json:"expire_secret"`
	}
	err := simulate.ReadBody(r, &body)
	var key signingKey
	switch {
	case err != nil:
	case body.Permissions != nil && slices.ContainsFunc(*body.Permissions, isUnknownAppRole):
		err = errors.New("there is no such app role")
	case body.Certificate != nil && !isCertificate(*body.Certificate):
		err = errors.New("certificate must be a PEM certificate")
	case body.RotateKeys:
		if _, err = s.signingKeys(); err == nil {
			key, err = newSigningKey()
		}
	}
	if err != nil {
		simulate.WriteError(w, http.StatusBadRequest, err.Error())
		return
	}
	err = s.app.Do(func(a *registration) {
		if body.Certificate != nil {
			a.Certificates = append(slices.Clone(a.Certificates), *body.Certificate)
		}
		if body.RedirectURIs != nil {
			a.RedirectURIs = *body.RedirectURIs
		}
		if body.Permissions != nil {
			a.Permissions = *body.Permissions
		}
		if body.WidsInIDToken != nil {
			a.WidsInIDToken = *body.WidsInIDToken
		}
		if body.RotateKeys {
			a.Keys = append(slices.Clone(a.Keys), key)
		}
		if body.ExpireSecret {
			a.Secret, a.ExpiredSecret = randomText(30), a.Secret
		}
	})
	if err != nil {
		simulate.WriteError(w, http.StatusInternalServerError, err.Error())
		return
	}
	simulate.WriteJSON(w, http.StatusOK, struct{}{})
}

func isUnknownAppRole(role string) bool { _, exists := appRoles[role]; return !exists }

// isCertificate reports whether a text is a PEM block of type CERTIFICATE. It does not check the
// content of the block.
func isCertificate(text string) bool {
	block, _ := pem.Decode([]byte(text))
	return block != nil && block.Type == "CERTIFICATE"
}
