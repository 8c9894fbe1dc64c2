"""The bodies of requests as parameters of routes. Each is read and validated once per request."""

from typing import Annotated, TypeAlias

from fastapi import Depends

from pennon.server.iceberg import models
from pennon.server.requests import body_of

CreateNamespace: TypeAlias = Annotated[models.CreateNamespaceRequest, Depends(body_of(models.CreateNamespaceRequest))]
UpdateProperties: TypeAlias = Annotated[
    models.UpdateNamespacePropertiesRequest, Depends(body_of(models.UpdateNamespacePropertiesRequest))
]
CreateTable: TypeAlias = Annotated[models.CreateTableRequest, Depends(body_of(models.CreateTableRequest))]
RenameTable: TypeAlias = Annotated[models.RenameTableRequest, Depends(body_of(models.RenameTableRequest))]
UpdateTable: TypeAlias = Annotated[models.CommitTableRequest, Depends(body_of(models.CommitTableRequest))]
CommitTransaction: TypeAlias = Annotated[
    models.CommitTransactionRequest, Depends(body_of(models.CommitTransactionRequest))
]
