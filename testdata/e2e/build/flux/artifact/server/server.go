// Package server hands out archives over HTTP.
package server

import (
	"context"
	"net/http"
	"time"

	"github.com/fluxcd/pkg/artifact/config"
)

// Start serves the folder until the context ends.
func Start(ctx context.Context, options *config.Options) error {
	server := &http.Server{
		Addr:              options.StorageAddress,
		Handler:           http.FileServer(http.Dir(options.StoragePath)),
		ReadHeaderTimeout: 10 * time.Second,
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return server.ListenAndServe()
}
