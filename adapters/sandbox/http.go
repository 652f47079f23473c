// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"time"

	"github.com/tenantry/tenantry/adapters/sandbox/zones"
	"github.com/tenantry/tenantry/core/fault"
)

// maxBody limits the body of a call, in bytes.
const maxBody = 4 << 20

// badRequest is the error of an invalid call: status 400.
type badRequest string

func (b badRequest) Error() string { return string(b) }

// notFound is the error of a call for an object that does not exist: status 404.
type notFound string

func (n notFound) Error() string { return string(n) }

// notImplemented is the error of a call that this sandbox does not support: status 501.
type notImplemented string

func (n notImplemented) Error() string { return string(n) }

// failedFlow is the error of a connect flow that did not connect the tenant: status 409.
type failedFlow struct {
	Text   string `json:"error"`
	Status int    `json:"page_status"`
}

func (f failedFlow) Error() string { return f.Text }

// emptyResponse is encoded as {}.
type emptyResponse struct{}

// call handles one call of the control interface, or of the API that simulators call. It returns
// the value to encode as JSON.
type call func(r *http.Request) (any, error)

// handle returns a handler that runs a call and encodes its result or error as JSON.
func handle(log *slog.Logger, serve call) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		answer, err := serve(r)
		if err != nil {
			answer = errorResponse(log, r, err)
		}
		response, ok := answer.(rawResponse)
		if !ok {
			response = encode(http.StatusOK, answer)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(response.status)
		_, _ = w.Write(response.body)
	})
}

// rawResponse is a response that is already encoded.
type rawResponse struct {
	status int
	body   []byte
}

func encode(status int, v any) rawResponse {
	body, err := json.Marshal(v)
	if err != nil {
		return rawResponse{http.StatusInternalServerError, []byte(`{"error":"the answer cannot be encoded"}`)}
	}
	return rawResponse{status, append(body, '\n')}
}

// errorResponse returns the response for err. It logs errors with status 500.
func errorResponse(log *slog.Logger, r *http.Request, err error) rawResponse {
	status := statusOf(err)
	if flow := (failedFlow{}); errors.As(err, &flow) {
		return encode(http.StatusConflict, flow)
	}
	if status == http.StatusInternalServerError {
		log.ErrorContext(r.Context(), "sandbox call failed", "call", r.Pattern, "error", err)
	}
	return encode(status, map[string]string{"error": err.Error()})
}

func statusOf(err error) int {
	var refused *fault.Error
	switch {
	case errors.As(err, new(badRequest)), errors.As(err, new(zones.InvalidError)), errors.As(err, new(*http.MaxBytesError)):
		return http.StatusBadRequest
	case errors.As(err, new(notFound)), errors.Is(err, zones.ErrUnknown):
		return http.StatusNotFound
	case errors.Is(err, zones.ErrChanged):
		return http.StatusConflict
	case errors.As(err, new(notImplemented)):
		return http.StatusNotImplemented
	case errors.As(err, &refused) && refused.Code.Kind == fault.NotFound:
		return http.StatusNotFound
	case errors.As(err, &refused) && refused.Code.Kind < fault.Internal:
		return http.StatusBadRequest
	default:
		return http.StatusInternalServerError
	}
}

// decodeBody decodes the body of a call into v. It refuses unknown members, so that the caller
// notices a misspelled member.
func decodeBody(r *http.Request, v any) error {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		if invalid := zones.InvalidError(""); errors.As(err, &invalid) {
			return invalid
		}
		return badRequest(fmt.Sprintf("body: %v", err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return badRequest("body: more than one value")
	}
	return nil
}

// route serves the calls of mux. It answers 400 for a known path with a wrong method, and passes
// unknown paths to fallback.
func (env *Environment) route(mux *http.ServeMux, fallback call) http.Handler {
	noRoute := handle(env.log, func(r *http.Request) (any, error) {
		if method, ok := allowedMethod(mux, r); ok {
			return nil, badRequest("there is no such call: this path accepts the method " + method)
		}
		return fallback(r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r)
		switch {
		case path.Clean(r.URL.Path) != r.URL.Path: // ServeMux would redirect to the clean path
			handle(env.log, noSuchCall).ServeHTTP(w, r)
		case pattern == "":
			noRoute.ServeHTTP(w, r)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

// allowedMethod returns a method, other than the method of r, that mux accepts for the path of r.
// It returns false if mux accepts no other method.
func allowedMethod(mux *http.ServeMux, r *http.Request) (string, bool) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := *r
		probe.Method = method
		if _, pattern := mux.Handler(&probe); pattern != "" && method != r.Method {
			return method, true
		}
	}
	return "", false
}

// notYet answers a call that the sandbox does not support yet.
func notYet(*http.Request) (any, error) {
	return nil, notImplemented("this sandbox does not support the call yet")
}

func noSuchCall(*http.Request) (any, error) { return nil, notFound("there is no such call") }

// loopbackServer is an HTTP server on loopback. Its calls need no authentication. It therefore
// refuses cross-origin requests of browsers, except GET, HEAD and OPTIONS. It also refuses requests
// whose Host is not this machine, because a web page could use DNS rebinding to make its own origin
// point to loopback.
type loopbackServer struct {
	url    string
	server *http.Server
	cancel context.CancelFunc
	done   chan error
}

func startServer(ctx context.Context, addr string, h http.Handler) (*loopbackServer, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on loopback: %w", err)
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &loopbackServer{url: "http://" + l.Addr().String(), cancel: cancel, done: make(chan error, 1)}
	s.server = &http.Server{
		Handler:           requireLocalHost(http.NewCrossOriginProtection().Handler(h)),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	go func() { s.done <- s.server.Serve(l) }()
	return s, nil
}

// requireLocalHost answers 403 to a request whose Host is neither localhost nor a loopback address.
func requireLocalHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := (&url.URL{Host: r.Host}).Hostname()
		addr, err := netip.ParseAddr(host)
		if host != "localhost" && (err != nil || !addr.IsLoopback()) {
			http.Error(w, "the Host header must be localhost or a loopback address", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// close waits up to 2 seconds for the calls in progress. Then it cancels them.
func (s *loopbackServer) close() error {
	grace, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if s.server.Shutdown(grace) != nil {
		s.cancel()
		_ = s.server.Close()
	}
	s.cancel()
	if err := <-s.done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
