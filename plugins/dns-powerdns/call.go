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

	"github.com/tenantry/tenantry/plugins/sdk"
)

// The maximum sizes of answers in bytes. The answer with a zone is kept in memory. The answer with
// a list of zones is not kept in memory, because the zones are counted while the answer is read.
const (
	maxZoneList  = 32 << 20
	maxZone      = 8 << 20
	maxErrorBody = 64 << 10
)

// conflictMessage is a part of the server's error if a name would have a CNAME and other records.
const conflictMessage = "Conflicts with pre-existing RRset"

// get requests a path below p.base. It calls read with the body of a successful answer.
func (p *provider) get(ctx context.Context, path string, read func(io.Reader) error) error {
	_, err := p.call(ctx, http.MethodGet, path, nil, read)
	return err
}

// newSerialHeader is a header in the answer to a PATCH. It contains the zone's serial after the
// PATCH.
const newSerialHeader = "X-PDNS-New-Serial"

// patch sends body as JSON in a PATCH to a path below p.base. It returns the value of
// newSerialHeader, which is empty if the server does not edit the zone's serial.
func (p *provider) patch(ctx context.Context, path string, body any) (serial string, err error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return "", sdk.BrokenAnswer("encode")
	}
	header, err := p.call(ctx, http.MethodPatch, path, bytes.NewReader(raw), nil)
	return header.Get(newSerialHeader), err
}

// call makes one API request and returns the header of its answer. If read is not nil, call calls
// it with the body of a successful answer.
func (p *provider) call(ctx context.Context, method, path string, body io.Reader, read func(io.Reader) error) (http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, body)
	if err != nil {
		return nil, sdk.Misconfigured("api_url", "it cannot be used in a request")
	}
	req.Header.Set("X-API-Key", p.key.Reveal())
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := p.http.Do(req)
	if err != nil {
		return nil, sdk.TransportError(err)
	}
	defer func() {
		_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBody) // reads a short rest, so that the connection can be reused
		_ = resp.Body.Close()
	}()
	if err := statusError(resp); err != nil || read == nil {
		return resp.Header, err
	}
	return resp.Header, classifyReadError(read(resp.Body))
}

// classifyReadError classifies an error of reading an answer: sdk.BrokenAnswer if the answer is not
// the expected JSON, otherwise sdk.TransportError. It returns nil for nil.
func classifyReadError(err error) error {
	var syntaxErr *json.SyntaxError
	var typeErr *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntaxErr), errors.As(err, &typeErr), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return sdk.BrokenAnswer("not_json")
	default:
		return sdk.TransportError(err)
	}
}

// statusError returns the error for the status of an answer, or nil for 200 and 204.
func statusError(resp *http.Response) error {
	if err := sdk.StatusError(resp.StatusCode, resp.Header, time.Now()); err != nil {
		return err
	}
	cause := "status " + strconv.Itoa(resp.StatusCode)
	switch {
	case resp.StatusCode == http.StatusOK, resp.StatusCode == http.StatusNoContent:
		return nil
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		return sdk.CredentialRefused(cause)
	case resp.StatusCode == http.StatusNotFound:
		return sdk.NoZone()
	case resp.StatusCode == http.StatusUnprocessableEntity && isConflict(resp.Body):
		return sdk.ZoneChanged()
	case resp.StatusCode == http.StatusUnprocessableEntity, resp.StatusCode == http.StatusBadRequest, resp.StatusCode == http.StatusConflict:
		return sdk.RequestRefused(cause)
	default:
		return sdk.BrokenAnswer(cause)
	}
}

// isConflict reports whether the body of a 422 contains conflictMessage.
func isConflict(body io.Reader) bool {
	message, _ := io.ReadAll(io.LimitReader(body, maxErrorBody))
	return strings.Contains(string(message), conflictMessage)
}
