package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/blob/s3"
	"github.com/daybookq/daybook/client"
)

// inBlobs is the value of --chunks for the blobs of the server.
const inBlobs = "blobs"

func chunksFlag(cmd *cobra.Command, to *string, use string) {
	cmd.Flags().StringVar(to, "chunks", "", use+": blobs (those of the server), file:///DIR, or s3://BUCKET/PREFIX?endpoint=https://HOST&region=REGION")
}

// openChunks opens the store of the flag --chunks; nil without the flag. The caller calls end.
func openChunks(text string) (o *client.Chunks, end func(), err error) {
	end = func() {}
	switch {
	case text == "":
		return nil, end, nil
	case text == inBlobs:
		return &client.Chunks{}, end, nil
	case strings.HasPrefix(text, s3.Scheme):
		store, err := s3.OpenChunks(text)
		if err != nil {
			return nil, end, usageError{fmt.Errorf("--chunks: %w", err)}
		}
		return &client.Chunks{Store: store}, func() { _ = store.Close() }, nil // all of its requests have ended
	}
	if !strings.HasPrefix(text, "file:") {
		return nil, end, usageError{fmt.Errorf("--chunks %q is not blobs, file:///DIR or s3://BUCKET/PREFIX", text)}
	}
	store, err := client.OpenChunks(text)
	if err != nil {
		return nil, end, usageError{fmt.Errorf("--chunks: %w", err)}
	}
	return &client.Chunks{Store: store}, end, nil
}
