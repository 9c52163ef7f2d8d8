"use strict";
SwaggerUIBundle({
  url: "openapi.yaml",
  dom_id: "#page",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
});
