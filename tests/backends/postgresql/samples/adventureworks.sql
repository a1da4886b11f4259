-- A bicycle maker: many schemas, domains, a function in defaults, checks, clustered keys, comments,
-- keys that span schemas, views that are indexed.
CREATE FUNCTION public.new_guid() RETURNS uuid LANGUAGE sql VOLATILE AS 'SELECT gen_random_uuid()';
CREATE SCHEMA person;
CREATE SCHEMA humanresources;
CREATE SCHEMA production;
CREATE SCHEMA purchasing;
CREATE SCHEMA sales;
CREATE SCHEMA pr;
CREATE DOMAIN public."OrderNumber" varchar(25) NULL;
CREATE DOMAIN public."AccountNumber" varchar(15) NULL;
CREATE DOMAIN public."Flag" boolean NOT NULL;
CREATE DOMAIN public."NameStyle" boolean NOT NULL;
CREATE DOMAIN public."Name" varchar(50) NULL;
CREATE DOMAIN public."Phone" varchar(25) NULL;

CREATE TABLE person.businessentity (
    businessentityid serial, rowguid uuid NOT NULL CONSTRAINT guid DEFAULT (public.new_guid()),
    modifieddate timestamp NOT NULL DEFAULT (now())
);
CREATE TABLE person.person (
    businessentityid int NOT NULL, persontype char(2) NOT NULL,
    namestyle public."NameStyle" NOT NULL CONSTRAINT style DEFAULT (false),
    firstname public."Name" NOT NULL, additionalcontactinfo text,
    rowguid uuid NOT NULL DEFAULT (public.new_guid()),
    CONSTRAINT "CK_Person_PersonType"
        CHECK (persontype IS NULL OR upper(persontype) IN ('SC', 'VC', 'IN', 'EM', 'SP', 'GC'))
);
CREATE TABLE person.stateprovince (
    stateprovinceid serial, stateprovincecode char(3) NOT NULL,
    isonlystateprovinceflag public."Flag" NOT NULL DEFAULT (true), name public."Name" NOT NULL,
    territoryid int NOT NULL
);
CREATE TABLE humanresources.department (
    departmentid serial NOT NULL, name public."Name" NOT NULL,
    modifieddate timestamp NOT NULL DEFAULT (now())
);
CREATE TABLE humanresources.employee (
    businessentityid int NOT NULL, nationalidnumber varchar(15) NOT NULL, birthdate date NOT NULL,
    maritalstatus char(1) NOT NULL, salariedflag public."Flag" NOT NULL DEFAULT (true),
    organizationnode varchar DEFAULT '/',
    CONSTRAINT "CK_Employee_BirthDate"
        CHECK (birthdate BETWEEN '1930-01-01' AND now() - interval '18 years'),
    CONSTRAINT "CK_Employee_MaritalStatus" CHECK (upper(maritalstatus) IN ('M', 'S'))
);
CREATE TABLE production.product (
    productid serial NOT NULL, name public."Name" NOT NULL, productnumber varchar(25) NOT NULL,
    makeflag public."Flag" NOT NULL DEFAULT (true), listprice numeric NOT NULL,
    catalogdescription text, rowguid uuid NOT NULL DEFAULT (public.new_guid()),
    CONSTRAINT "CK_Product_ListPrice" CHECK (listprice >= 0.00)
);
CREATE TABLE production.document (
    documentnode varchar NOT NULL DEFAULT '/', title varchar(50) NOT NULL, owner int NOT NULL,
    document bytea, rowguid uuid NOT NULL UNIQUE DEFAULT (public.new_guid())
);
CREATE TABLE production.billofmaterials (
    billofmaterialsid serial NOT NULL, productassemblyid int, componentid int NOT NULL,
    perassemblyqty numeric(8, 2) NOT NULL CONSTRAINT quantity DEFAULT (1.00),
    CONSTRAINT "CK_BillOfMaterials_ProductAssemblyID" CHECK (productassemblyid <> componentid)
);
CREATE TABLE purchasing.vendor (
    businessentityid int NOT NULL, accountnumber public."AccountNumber" NOT NULL,
    name public."Name" NOT NULL, creditrating smallint NOT NULL,
    CONSTRAINT "CK_Vendor_CreditRating" CHECK (creditrating BETWEEN 1 AND 5)
);
CREATE TABLE sales.salesterritory (
    territoryid serial NOT NULL, name public."Name" NOT NULL, "group" varchar(50) NOT NULL
);
CREATE TABLE sales.salesorderheader (
    salesorderid serial NOT NULL, orderdate timestamp NOT NULL DEFAULT (now()),
    purchaseordernumber public."OrderNumber", customerid int NOT NULL, territoryid int,
    subtotal numeric NOT NULL DEFAULT (0.00),
    CONSTRAINT "CK_SalesOrderHeader_SubTotal" CHECK (subtotal >= 0.00)
);
CREATE TABLE sales.salesorderdetail (
    salesorderid int NOT NULL, salesorderdetailid serial NOT NULL, productid int NOT NULL,
    orderqty smallint NOT NULL, unitprice numeric(10, 2) NOT NULL DEFAULT 2.50,
    discount numeric(4, 2) NOT NULL DEFAULT 0,
    linetotal numeric(16, 4) GENERATED ALWAYS AS (unitprice * orderqty * (1 - discount)) STORED,
    CONSTRAINT "CK_Detail_OrderQty" CHECK (orderqty > 0)
);

INSERT INTO person.businessentity (modifieddate)
SELECT timestamp '2026-01-01' FROM generate_series(1, 100);
INSERT INTO person.person SELECT n, 'em', n % 2 = 0, 'name ' || n, NULL
FROM generate_series(1, 90) AS n;
UPDATE person.person SET additionalcontactinfo = format($$<info>%s</info>$$, businessentityid)
WHERE businessentityid % 3 = 0;
INSERT INTO sales.salesterritory (name, "group") SELECT 't' || n, 'g' FROM generate_series(1, 10) AS n;
INSERT INTO person.stateprovince (stateprovincecode, name, territoryid)
SELECT 'P' || n, 'state ' || n, 1 + n % 10 FROM generate_series(1, 40) AS n;
INSERT INTO humanresources.department (name) SELECT 'd' || n FROM generate_series(1, 16) AS n;
INSERT INTO humanresources.employee SELECT n, n::text, date '1970-01-01' + n, 'm'
FROM generate_series(1, 60) AS n;
INSERT INTO production.product (name, productnumber, listprice, catalogdescription)
SELECT 'product ' || n, 'P-' || n, n, '<p>1</p>' FROM generate_series(1, 100) AS n;
INSERT INTO production.document SELECT '/' || n || '/', 'title', 1 + n % 60, '\x00'
FROM generate_series(1, 13) AS n;
INSERT INTO production.billofmaterials (productassemblyid, componentid)
SELECT n, n + 1 FROM generate_series(1, 99) AS n;
INSERT INTO purchasing.vendor SELECT n, 'A' || n, 'vendor ' || n, 1 + n % 5
FROM generate_series(91, 100) AS n;
INSERT INTO sales.salesorderheader (customerid, territoryid, subtotal)
SELECT 1 + n % 90, 1 + n % 10, n FROM generate_series(1, 150) AS n;
INSERT INTO sales.salesorderdetail (salesorderid, productid, orderqty)
SELECT 1 + n % 150, 1 + n % 100, 1 FROM generate_series(1, 300) AS n;

ALTER TABLE person.businessentity
    ADD CONSTRAINT "PK_BusinessEntity" PRIMARY KEY (businessentityid);
CLUSTER person.businessentity USING "PK_BusinessEntity";
ALTER TABLE person.person ADD CONSTRAINT "PK_Person" PRIMARY KEY (businessentityid);
ALTER TABLE person.stateprovince ADD CONSTRAINT "PK_StateProvince" PRIMARY KEY (stateprovinceid);
ALTER TABLE humanresources.department ADD CONSTRAINT "PK_Department" PRIMARY KEY (departmentid);
ALTER TABLE humanresources.employee ADD CONSTRAINT "PK_Employee" PRIMARY KEY (businessentityid);
ALTER TABLE production.product ADD CONSTRAINT "PK_Product" PRIMARY KEY (productid);
ALTER TABLE production.document ADD CONSTRAINT "PK_Document" PRIMARY KEY (documentnode);
ALTER TABLE production.billofmaterials ADD CONSTRAINT "PK_Bill" PRIMARY KEY (billofmaterialsid);
ALTER TABLE purchasing.vendor ADD CONSTRAINT "PK_Vendor" PRIMARY KEY (businessentityid);
ALTER TABLE sales.salesterritory ADD CONSTRAINT "PK_SalesTerritory" PRIMARY KEY (territoryid);
ALTER TABLE sales.salesorderheader ADD CONSTRAINT "PK_Header" PRIMARY KEY (salesorderid);
ALTER TABLE sales.salesorderdetail
    ADD CONSTRAINT "PK_Detail" PRIMARY KEY (salesorderid, salesorderdetailid);
ALTER TABLE person.person ADD CONSTRAINT "FK_Person_BusinessEntity"
    FOREIGN KEY (businessentityid) REFERENCES person.businessentity;
ALTER TABLE person.stateprovince ADD CONSTRAINT "FK_StateProvince_SalesTerritory"
    FOREIGN KEY (territoryid) REFERENCES sales.salesterritory;
ALTER TABLE humanresources.employee ADD CONSTRAINT "FK_Employee_Person"
    FOREIGN KEY (businessentityid) REFERENCES person.person;
ALTER TABLE production.document ADD CONSTRAINT "FK_Document_Employee"
    FOREIGN KEY (owner) REFERENCES humanresources.employee;
ALTER TABLE production.billofmaterials ADD CONSTRAINT "FK_Bill_Assembly"
    FOREIGN KEY (productassemblyid) REFERENCES production.product;
ALTER TABLE production.billofmaterials ADD CONSTRAINT "FK_Bill_Component"
    FOREIGN KEY (componentid) REFERENCES production.product;
ALTER TABLE purchasing.vendor ADD CONSTRAINT "FK_Vendor_BusinessEntity"
    FOREIGN KEY (businessentityid) REFERENCES person.businessentity;
ALTER TABLE sales.salesorderheader ADD CONSTRAINT "FK_Header_Person"
    FOREIGN KEY (customerid) REFERENCES person.person;
ALTER TABLE sales.salesorderheader ADD CONSTRAINT "FK_Header_Territory"
    FOREIGN KEY (territoryid) REFERENCES sales.salesterritory;
ALTER TABLE sales.salesorderdetail ADD CONSTRAINT "FK_Detail_Header"
    FOREIGN KEY (salesorderid) REFERENCES sales.salesorderheader ON DELETE CASCADE;
ALTER TABLE sales.salesorderdetail ADD CONSTRAINT "FK_Detail_Product"
    FOREIGN KEY (productid) REFERENCES production.product;
COMMENT ON SCHEMA person IS 'people';
COMMENT ON TABLE person.person IS 'everybody''s name';
COMMENT ON COLUMN sales.salesorderheader.subtotal IS 'computed';
CREATE VIEW pr.p AS SELECT productid AS id, * FROM production.product;
CREATE MATERIALIZED VIEW person.vstates AS
    SELECT s.stateprovinceid, s.name, t.name AS territory
    FROM person.stateprovince AS s JOIN sales.salesterritory AS t USING (territoryid);
CREATE UNIQUE INDEX ix_vstates ON person.vstates (stateprovinceid);
