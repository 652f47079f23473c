// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
)

// A connect flow is held together by three tokens. The state travels in the
// link and is sealed: it names the account and when it ends. The cookie binds
// one browser: it names the flow, and its random part is known to that browser
// alone. The sign-in's state and the CSRF token follow from the cookie by a
// one-way hash, so they are checked before any row is touched.

const statePlace = "connect/state"

func invalidLink() error {
	return fault.ConnectLinkInvalid.With("the connect link is forged, expired, already used or was opened in another browser")
}

// sealState makes the state of a link.
func (s *Service) sealState(owner access.AccountID, expires time.Time) (string, error) {
	token, err := s.token()
	if err != nil {
		return "", err
	}
	plain := strings.Join([]string{token, string(owner), strconv.FormatInt(expires.Unix(), 10)}, " ")
	sealed, err := s.Sealer.Seal(secret.New(plain), statePlace)
	if err != nil {
		return "", fmt.Errorf("seal state: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// openState checks a state's seal and time and returns whose link it is.
func (s *Service) openState(state string) (access.AccountID, error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(state)
	if err != nil || state == "" {
		return "", invalidLink()
	}
	plain, err := s.Sealer.Open(sealed, statePlace)
	if err != nil {
		return "", invalidLink()
	}
	parts := strings.Split(plain.Reveal(), " ")
	if len(parts) != 3 {
		return "", invalidLink()
	}
	expires, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || !s.Now().Before(time.Unix(expires, 0)) {
		return "", invalidLink()
	}
	return access.AccountID(parts[1]), nil
}

// newCookie makes the cookie that binds a browser to a flow.
func (s *Service) newCookie(flow [32]byte) (secret.Text, error) {
	token, err := s.token()
	return secret.New(hex.EncodeToString(flow[:]) + "." + token), err
}

// flowOf returns the flow that a cookie names.
func flowOf(cookie secret.Text) ([32]byte, error) {
	name, _, ok := strings.Cut(cookie.Reveal(), ".")
	id, err := hex.DecodeString(name)
	if !ok || err != nil || len(id) != sha256.Size {
		return [32]byte{}, invalidLink()
	}
	return [32]byte(id), nil
}

func hash(text string) [32]byte { return sha256.Sum256([]byte(text)) }

// derived is a token that follows from the cookie and does not lead back.
func derived(cookie secret.Text, use string) string {
	sum := hash(use + "\x00" + cookie.Reveal())
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// token is 256 random bits.
func (s *Service) token() (string, error) {
	var random [32]byte
	if _, err := io.ReadFull(s.Random, random[:]); err != nil {
		return "", fmt.Errorf("read randomness: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(random[:]), nil
}
