// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// What is read of answers. The list of zones is only counted as it comes; a
// zone is held.
const (
	maxList    = 32 << 20
	maxZone    = 8 << 20
	maxRefusal = 64 << 10
)

// conflict begins what the server says of a CNAME that would not stand alone.
const conflict = "Conflicts with pre-existing RRset"

// call makes one request below the server's id and gives a good answer to read
// unless that is nil.
func (p *provider) call(ctx context.Context, method, path string, in any, read func(io.Reader) error) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return sdk.BrokenBy("encode")
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, body)
	if err != nil {
		return sdk.Misconfigured("api_url", "it makes no request")
	}
	req.Header.Set("X-API-Key", p.key.Reveal())
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := p.http.Do(req)
	if err != nil {
		return sdk.NoAnswer(err)
	}
	defer func() {
		_, _ = io.CopyN(io.Discard, resp.Body, maxRefusal) // so that the connection can be used again
		_ = resp.Body.Close()
	}()
	if err := refusal(resp); err != nil || read == nil {
		return err
	}
	return misread(read(resp.Body))
}

// misread tells an answer that makes no sense from one that did not come.
func misread(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax), errors.As(err, &kind), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return sdk.BrokenBy("not_json")
	default:
		return sdk.NoAnswer(err)
	}
}

// refusal reads an answer that is no success. Only 422 comes as JSON.
func refusal(resp *http.Response) error {
	if err := sdk.TroubleOf(resp.StatusCode, resp.Header, time.Now()); err != nil {
		return err
	}
	cause := "status " + strconv.Itoa(resp.StatusCode)
	switch {
	case resp.StatusCode == http.StatusOK, resp.StatusCode == http.StatusNoContent:
		return nil
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		return sdk.CredentialRefused(cause)
	case resp.StatusCode == http.StatusNotFound:
		return dns.NoZone()
	case resp.StatusCode == http.StatusUnprocessableEntity && conflicts(resp.Body):
		return dns.Changed()
	case resp.StatusCode == http.StatusUnprocessableEntity, resp.StatusCode == http.StatusBadRequest, resp.StatusCode == http.StatusConflict:
		return sdk.RefusedBy(cause)
	default:
		return sdk.BrokenBy(cause)
	}
}

func conflicts(body io.Reader) bool {
	said, _ := io.ReadAll(io.LimitReader(body, maxRefusal))
	return strings.Contains(string(said), conflict)
}
